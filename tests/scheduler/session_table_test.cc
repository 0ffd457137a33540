// Proves that each stream has one session, and that a session which is made
// later is told what those before it were told.

#include "scheduler/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/engine/base/manual_task_runner.h"
#include "tests/scheduler/model_session.h"

namespace reprise::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StreamKey Key(int device, uintptr_t stream = 0) {
  return {DeviceKind::kHost, device, reinterpret_cast<void*>(stream)};
}

class SessionTableTest : public testing::Test {
 protected:
  std::unique_ptr<StreamSession> Make(const StreamKey& key,
                                      SessionTable::Place place) {
    places_.push_back(place);
    if (on_make_) on_make_();
    if (key.device == kNone) return nullptr;
    StreamSession::Parts parts;
    parts.asleep = &asleep_;
    auto model =
        std::make_unique<ModelSession>(&plans_, &builds_, std::move(parts));
    auto session = model->Take();
    models_[session.get()] = std::move(model);
    return session;
  }
  // Whether the session looks at what its program does.
  bool Watches(StreamSession* session) {
    ModelSession& model = *models_.at(session);
    const int before = model.program().observed();
    model.RunAnOp();
    return model.program().observed() > before;
  }

  static constexpr int kNone = 9;  // a device that can have no session

  PlanCache plans_{size_t{1} << 20};
  base::ManualTaskRunner builds_;
  Skipping asleep_;
  std::map<StreamSession*, std::unique_ptr<ModelSession>> models_;
  std::vector<SessionTable::Place> places_;
  std::function<void()> on_make_;
  StreamWrites writes_;
  SessionTable table_{&writes_,
                      [this](const StreamKey& key, SessionTable::Place place) {
                        return Make(key, place);
                      }};
};

TEST_F(SessionTableTest, EachStreamHasOneSession) {
  EXPECT_EQ(table_.Find(Key(0)), nullptr);
  StreamSession* const first = table_.FindOrMake(Key(0));
  StreamSession* const second = table_.FindOrMake(Key(0, 1));
  ASSERT_NE(first, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(table_.FindOrMake(Key(0)), first);
  EXPECT_EQ(table_.Find(Key(0, 1)), second);
  EXPECT_EQ(table_.Find(Key(1)), nullptr);
  EXPECT_EQ(table_.KeyOf(second), Key(0, 1));
  EXPECT_THAT(places_, ElementsAre(SessionTable::Place::kFirst,
                                   SessionTable::Place::kLater));
}

TEST_F(SessionTableTest, WhatCannotBeHadIsNotTriedAgain) {
  EXPECT_EQ(table_.FindOrMake(Key(kNone)), nullptr);
  EXPECT_EQ(table_.FindOrMake(Key(kNone)), nullptr);
  EXPECT_EQ(places_.size(), 1u);
  EXPECT_EQ(table_.Find(Key(kNone)), nullptr);
  EXPECT_THAT(table_.All(), IsEmpty());
  EXPECT_THAT(table_.TryOf(kNone), IsEmpty());
  table_.Pause();
  table_.Resume();
}

TEST_F(SessionTableTest, ASessionOfAnotherRuntimeHasNoKey) {
  table_.FindOrMake(Key(0));
  ModelSession other(&plans_, &builds_);
  EXPECT_EQ(table_.KeyOf(&other.session()), std::nullopt);
}

TEST_F(SessionTableTest, GivesTheSessionsOfDevices) {
  StreamSession* const a = table_.FindOrMake(Key(0));
  StreamSession* const b = table_.FindOrMake(Key(1));
  StreamSession* const c = table_.FindOrMake(Key(1, 1));
  EXPECT_THAT(table_.All(), ElementsAre(a, b, c));
  EXPECT_THAT(table_.Of({DeviceKind::kHost}), ElementsAre(a, b, c));
  EXPECT_THAT(table_.Of({DeviceKind::kHost, 1}), ElementsAre(b, c));
  EXPECT_THAT(table_.TryOf(0), ElementsAre(a));
  EXPECT_THAT(table_.TryOf(2), IsEmpty());
}

TEST_F(SessionTableTest, WhoTriesWaitsForNobodyWhoMakesASession) {
  table_.FindOrMake(Key(0));
  std::vector<StreamSession*> found = {nullptr};
  on_make_ = [&] { std::thread([&] { found = table_.TryOf(0); }).join(); };
  table_.FindOrMake(Key(1));
  EXPECT_THAT(found, IsEmpty());
}

TEST_F(SessionTableTest, SessionsToComeArePausedTooUntilResume) {
  StreamSession* const before = table_.FindOrMake(Key(0));
  EXPECT_TRUE(Watches(before));
  table_.Pause();
  StreamSession* const meanwhile = table_.FindOrMake(Key(1));
  EXPECT_FALSE(Watches(before));
  EXPECT_FALSE(Watches(meanwhile));
  table_.Resume();
  EXPECT_TRUE(Watches(before));
  EXPECT_TRUE(Watches(meanwhile));
  EXPECT_TRUE(Watches(table_.FindOrMake(Key(2))));
}

TEST_F(SessionTableTest, NoOpOfTheFirstIsSkippedOnceThereIsAnother) {
  table_.FindOrMake(Key(0));
  asleep_.Begin();
  table_.FindOrMake(Key(0));
  EXPECT_TRUE(asleep_.on());
  table_.FindOrMake(Key(1));
  EXPECT_FALSE(asleep_.on());
}

TEST_F(SessionTableTest, WritesAreToldOfSessionsThatThereAre) {
  table_.FindOrMake(Key(0));
  table_.FindOrMake(Key(kNone));
  EXPECT_FALSE(writes_.several());
  table_.FindOrMake(Key(1));
  EXPECT_TRUE(writes_.several());
}

}  // namespace
}  // namespace reprise::scheduler
