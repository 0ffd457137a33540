// The signature of a trace knows what was done to which value and nothing of
// where anything lies; values are numbered as they appear.

#include "engine/trace/open_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/engine/fake_frontend.h"

namespace reprise::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ValueId kNoValue = OpenTrace::kNoValue;

// A storage at an address, as the program has it.
struct Place {
  StorageToken token;
  uint64_t base;
};

Operand At(const Place& place, uint64_t offset_bytes = 0,
           bool written = false) {
  Operand operand;
  operand.storage = place.token;
  operand.base = place.base;
  operand.offset_bytes = offset_bytes;
  operand.storage_bytes = 1 << 20;
  operand.written = written;
  return operand;
}

ResultView New(const Place& place) {
  ResultView result;
  result.kind = ResultView::Kind::kTensor;
  result.storage = place.token;
  result.base = place.base;
  return result;
}

class OpenTraceTest : public testing::Test {
 protected:
  std::vector<ValueRef> Enter(std::vector<uint64_t> words,
                              std::vector<Operand> operands) {
    OpView view;
    view.words = words;
    view.operands = operands;
    const std::span<const ValueRef> refs = trace_.Enter(view);
    return {refs.begin(), refs.end()};
  }

  std::vector<ValueId> Leave(std::vector<ResultView> results) {
    const std::span<const ValueId> values = trace_.Leave(results);
    return {values.begin(), values.end()};
  }

  bool WritesExternal(std::vector<Operand> operands) {
    OpView view;
    view.operands = operands;
    return trace_.WritesExternal(view);
  }

  const Place x_{Token(1), 0x1000};
  const Place a_{Token(2), 0x2000};
  const Place b_{Token(3), 0x3000};
  OpenTrace trace_;
};

TEST_F(OpenTraceTest, ValuesAreNumberedAsTheyAppear) {
  EXPECT_EQ(Enter({1}, {At(x_, 64)})[0].value, 0u);
  EXPECT_THAT(Leave({New(a_), New(b_)}), ElementsAre(1, 2));
  const auto refs = Enter({2}, {At(b_), At(x_, 96), At(a_, 8, true)});
  EXPECT_EQ(refs[0].value, 2u);
  EXPECT_EQ(refs[1].value, 0u);
  EXPECT_EQ(refs[2].value, 1u);
  EXPECT_TRUE(refs[2].written);
  EXPECT_FALSE(refs[0].written);
  EXPECT_EQ(trace_.values(), 3u);
  EXPECT_EQ(trace_.ops(), 2u);
}

// An external is known from the tensor of its first use, an own value from its
// storage's beginning.
TEST_F(OpenTraceTest, OffsetsCountFromTheOrigin) {
  EXPECT_EQ(Enter({1}, {At(x_, 64)})[0].offset_bytes, 0u);
  Leave({New(a_)});
  const auto refs = Enter({2}, {At(x_, 96), At(x_, 0), At(a_, 8)});
  EXPECT_EQ(refs[0].offset_bytes, 32u);
  EXPECT_EQ(refs[1].offset_bytes, uint64_t{0} - 64);
  EXPECT_EQ(refs[2].offset_bytes, 8u);
}

TEST_F(OpenTraceTest, ResultsThatShareAStorageAreOneValue) {
  Enter({1}, {At(x_)});
  EXPECT_THAT(Leave({New(a_), New(b_), New(a_)}), ElementsAre(1, 2, 1));
  EXPECT_EQ(trace_.values(), 3u);
  EXPECT_EQ(Enter({2}, {At(a_)})[0].value, 1u);
}

TEST_F(OpenTraceTest, WhatIsNoNewTensorIsNoValue) {
  Enter({1}, {At(x_), At(a_)});
  ResultView undefined;
  ResultView host;
  host.kind = ResultView::Kind::kHost;
  ResultView itself = New(a_);
  itself.operand = 1;
  const ResultView view_of_operand = New(x_);
  EXPECT_THAT(Leave({undefined, host, itself, view_of_operand, New(b_)}),
              ElementsAre(kNoValue, kNoValue, kNoValue, kNoValue, 2));
  // An alias is still the operand's value.
  EXPECT_EQ(Enter({2}, {At(x_, 16)})[0].value, 0u);
}

TEST_F(OpenTraceTest, StorageThatMovedIsAnotherValue) {
  Enter({1}, {At(x_)});
  Leave({});
  EXPECT_EQ(Enter({1}, {At({x_.token, 0x9000})})[0].value, 1u);
}

// A storage that dies gives its token, and often its memory, to the next one.
TEST_F(OpenTraceTest, ResultWithTheTokenOfADeadStorageIsAnotherValue) {
  Enter({1}, {At(x_)});
  EXPECT_THAT(Leave({New(a_)}), ElementsAre(1));
  Enter({1}, {At(x_)});
  EXPECT_THAT(Leave({New(a_)}), ElementsAre(2));
  EXPECT_EQ(Enter({2}, {At(a_)})[0].value, 2u);
}

TEST_F(OpenTraceTest, OnlyWritesToOwnValuesStayInside) {
  EXPECT_TRUE(WritesExternal({At(x_, 0, true)}));
  EXPECT_FALSE(WritesExternal({At(x_)}));
  Enter({1}, {At(x_)});
  Leave({New(a_)});
  EXPECT_TRUE(WritesExternal({At(a_), At(x_, 32, true)}));
  EXPECT_FALSE(WritesExternal({At(a_, 8, true), At(x_)}));
  // The same token elsewhere is no storage of this trace.
  EXPECT_TRUE(WritesExternal({At({a_.token, 0x9000}, 0, true)}));
}

TEST_F(OpenTraceTest, OwnsWhatItsOpsMade) {
  Enter({1}, {At(x_)});
  Leave({New(a_), New(b_)});
  EXPECT_FALSE(trace_.Owns(At(x_)));
  EXPECT_TRUE(trace_.Owns(At(a_)));
  EXPECT_TRUE(trace_.external(0));
  EXPECT_FALSE(trace_.external(1));
  EXPECT_FALSE(trace_.external(2));
}

TEST_F(OpenTraceTest, ClearBeginsAnew) {
  const cache::Signature empty = trace_.signature();
  Enter({1}, {At(x_)});
  Leave({New(a_)});
  const cache::Signature once = trace_.signature();
  EXPECT_NE(once, empty);
  trace_.Clear();
  EXPECT_EQ(trace_.signature(), empty);
  EXPECT_EQ(trace_.ops(), 0u);
  EXPECT_EQ(trace_.values(), 0u);
  // What was a value of the old trace is an external now.
  EXPECT_TRUE(WritesExternal({At(a_, 0, true)}));
  Enter({1}, {At(a_)});
  Leave({New(x_)});
  EXPECT_EQ(trace_.signature(), once);
}

TEST_F(OpenTraceTest, ThousandsOfStoragesAreToldApart) {
  constexpr uint64_t kStorages = 5000;
  const auto place = [](uint64_t i) {
    return Place{Token(0x5500'0000'0000 + i * 0x40), 0x1000 + i * 0x200};
  };
  for (uint64_t i = 0; i < kStorages; ++i) {
    ASSERT_EQ(Enter({1}, {At(place(i))})[0].value, i);
  }
  for (uint64_t i = 0; i < kStorages; ++i) {
    ASSERT_EQ(Enter({1}, {At(place(i))})[0].value, i);
  }
}

// A program without addresses: what is done to which storage, by number.
struct Script {
  struct Use {
    uint32_t storage;
    uint64_t offset_bytes;
  };
  struct Step {
    std::vector<uint64_t> words;
    std::vector<Use> operands;
    std::vector<uint32_t> results;
  };
  std::vector<Step> steps;
  uint32_t storages = 0;
};

Script RandomScript(std::mt19937& random) {
  Script script;
  for (uint32_t k = 3 + random() % 8; k > 0; --k) {
    Script::Step& step = script.steps.emplace_back();
    for (uint32_t i = 1 + random() % 3; i > 0; --i) {
      step.words.push_back(random() % 8);
    }
    for (uint32_t i = 1 + random() % 3; i > 0; --i) {
      const uint32_t storage = script.storages == 0 || random() % 4 == 0
                                   ? script.storages++
                                   : random() % script.storages;
      step.operands.push_back({storage, random() % 4 * 64});
    }
    for (uint32_t i = random() % 3; i > 0; --i) {
      step.results.push_back(script.storages++);
    }
  }
  return script;
}

// Runs `script` with tokens and addresses drawn from `seed`. A storage that is
// used no more may hand its token, its memory or both to a later result.
std::vector<cache::Signature> SignaturesOf(const Script& script,
                                           uint32_t seed) {
  std::mt19937_64 random(seed);
  std::map<uint32_t, size_t> last_use;
  for (size_t k = 0; k < script.steps.size(); ++k) {
    for (const auto& use : script.steps[k].operands) last_use[use.storage] = k;
    for (const uint32_t result : script.steps[k].results) last_use[result] = k;
  }
  std::map<uint32_t, Place> places;
  std::set<uint64_t> taken;
  const auto fresh = [&](uint64_t granule) {
    for (;;) {
      const uint64_t number = (random() % 100'000 + 1) * granule;
      if (taken.insert(number).second) return number;
    }
  };
  const auto place_for_result = [&](size_t step) {
    Place place{Token(fresh(64)), fresh(0x10'0000)};
    for (auto old = places.begin(); old != places.end(); ++old) {
      if (last_use[old->first] >= step || random() % 2 == 0) continue;
      const uint64_t what = random() % 3;
      if (what != 0) place.token = old->second.token;
      if (what != 1) place.base = old->second.base;
      places.erase(old);
      break;
    }
    return place;
  };

  OpenTrace trace;
  std::vector<cache::Signature> signatures;
  for (size_t k = 0; k < script.steps.size(); ++k) {
    const Script::Step& step = script.steps[k];
    std::vector<Operand> operands;
    for (const Script::Use& use : step.operands) {
      if (!places.contains(use.storage)) {
        places[use.storage] = {Token(fresh(64)), fresh(0x10'0000)};
      }
      operands.push_back(At(places[use.storage], use.offset_bytes));
    }
    OpView view;
    view.words = step.words;
    view.operands = operands;
    trace.Enter(view);
    std::vector<ResultView> results;
    for (const uint32_t result : step.results) {
      const Place place = place_for_result(k);
      places[result] = place;
      results.push_back(New(place));
    }
    trace.Leave(results);
    signatures.push_back(trace.signature());
  }
  return signatures;
}

TEST(OpenTraceSignatureTest, TokensAndAddressesDoNotCount) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const Script script = RandomScript(random);
    const auto signatures = SignaturesOf(script, 1);
    for (uint32_t names = 2; names < 6; ++names) {
      ASSERT_EQ(SignaturesOf(script, names), signatures)
          << "seed " << seed << ", names " << names;
    }
  }
}

// One thing is changed in the middle of a script: all signatures before it
// stay, all from it on are others.
class OpenTraceChangeTest : public testing::Test {
 protected:
  // `change` gets a script of six ops whose third it alters.
  static void ExpectChanged(const std::function<void(Script&)>& change) {
    Script script;
    script.storages = 8;
    script.steps = {
        {{1, 10}, {{0, 0}, {1, 0}}, {2}},
        {{2, 20}, {{2, 0}}, {3, 4}},
        {{3, 30}, {{3, 0}, {2, 64}, {0, 128}}, {5}},
        {{4, 40}, {{5, 0}, {3, 0}}, {6}},
        {{5, 50}, {{6, 0}, {4, 0}, {1, 0}}, {7}},
        {{6, 60}, {{7, 0}}, {}},
    };
    const auto signatures = SignaturesOf(script, 1);
    change(script);
    const auto changed = SignaturesOf(script, 1);
    for (size_t k = 0; k < 2; ++k) EXPECT_EQ(changed[k], signatures[k]);
    for (size_t k = 2; k < script.steps.size(); ++k) {
      EXPECT_NE(changed[k], signatures[k]) << "op " << k;
    }
  }
};

TEST_F(OpenTraceChangeTest, WordCounts) {
  ExpectChanged([](Script& script) { script.steps[2].words[1] = 31; });
}

TEST_F(OpenTraceChangeTest, NumberOfWordsCounts) {
  ExpectChanged([](Script& script) { script.steps[2].words.push_back(0); });
}

TEST_F(OpenTraceChangeTest, OrderOfOperandsCounts) {
  ExpectChanged([](Script& script) {
    std::swap(script.steps[2].operands[0], script.steps[2].operands[1]);
  });
}

TEST_F(OpenTraceChangeTest, NumberOfOperandsCounts) {
  ExpectChanged([](Script& script) { script.steps[2].operands.pop_back(); });
}

TEST_F(OpenTraceChangeTest, WhichResultIsReadCounts) {
  ExpectChanged(
      [](Script& script) { script.steps[2].operands[0].storage = 4; });
}

TEST_F(OpenTraceChangeTest, WhichExternalIsReadCounts) {
  ExpectChanged([](Script& script) {
    script.steps[2].operands[2] = {.storage = 1, .offset_bytes = 128};
  });
}

TEST_F(OpenTraceChangeTest, WhetherAnOperandWasMadeHereCounts) {
  ExpectChanged([](Script& script) {
    script.steps[2].operands[1] = {script.storages++, 64};
  });
}

TEST_F(OpenTraceChangeTest, OffsetWithinAnOwnValueCounts) {
  ExpectChanged(
      [](Script& script) { script.steps[2].operands[1].offset_bytes = 96; });
}

TEST_F(OpenTraceChangeTest, OffsetWithinAnExternalCounts) {
  ExpectChanged(
      [](Script& script) { script.steps[2].operands[2].offset_bytes = 0; });
}

TEST_F(OpenTraceChangeTest, OrderOfOpsCounts) {
  ExpectChanged(
      [](Script& script) { std::swap(script.steps[2], script.steps[3]); });
}

TEST_F(OpenTraceChangeTest, SecondUseOfAnExternalIsNotAFirstUse) {
  // The same op on the external it knows, and on one that it does not.
  ExpectChanged([](Script& script) {
    script.steps[2].operands[2] = {script.storages++, 0};
  });
}

}  // namespace
}  // namespace reprise::engine
