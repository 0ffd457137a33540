// Proves that a report tells what every session has met, and where.

#include "scheduler/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/base/manual_task_runner.h"
#include "tests/scheduler/model_session.h"

namespace reprise::scheduler {
namespace {

using nlohmann::json;
using sim::ModelTensor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Says where the program is, once it is asked outside of the session.
class AnsweringFrontend final : public sim::ModelFrontend {
 public:
  void AskPlace(engine::PlaceAsker* asker, uint64_t question) override {
    asked_.emplace_back(asker, question);
  }
  void Answer(const std::string& place) {
    for (const auto& [asker, question] : asked_) asker->Tell(question, place);
    asked_.clear();
  }

 private:
  std::vector<std::pair<engine::PlaceAsker*, uint64_t>> asked_;
};

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    for (const char* name : {"first", "second"}) {
      StreamSession::Parts parts;
      parts.track = plans_track_.Of(name);
      auto frontend = std::make_unique<AnsweringFrontend>();
      frontends_.push_back(frontend.get());
      models_.push_back(std::make_unique<ModelSession>(
          &plans_, &builds_, std::move(parts), std::move(frontend)));
      owned_.push_back(models_.back()->Take());
      sessions_.push_back(owned_.back().get());
      inputs_.push_back(models_.back()->program().Make(1));
    }
  }

  // Two ops and a cut; of the one that is left, one op and the cut.
  void Pass(size_t session, bool left = false) {
    sim::ModelProgram& program = models_[session]->program();
    ModelTensor made = program.Add(inputs_[session], inputs_[session]);
    if (!left) made = program.Scale(made, 2);
    program.Read(made);
    frontends_[session]->Answer("train.py:" + std::to_string(session));
    builds_.RunAll();
  }
  void Passes(size_t session, int passes) {
    for (int i = 0; i < passes; ++i) Pass(session);
  }
  json Report() {
    return json::parse(ReportJson("host", SumOfStats(sessions_), sessions_));
  }

  Timeline timeline_;
  PlanCache plans_{size_t{1} << 20};
  const Track plans_track_{&timeline_, &plans_, "plans"};
  base::ManualTaskRunner builds_;
  std::vector<AnsweringFrontend*> frontends_;
  std::vector<std::unique_ptr<StreamSession>> owned_;
  std::vector<StreamSession*> sessions_;
  std::vector<std::unique_ptr<ModelSession>> models_;
  std::vector<ModelTensor> inputs_;
};

TEST_F(ReportTest, OfNothingHasAllItsLists) {
  const json report = json::parse(ReportJson("cuda", {}, {}));
  EXPECT_EQ(report["mode"], "cuda");
  EXPECT_EQ(report["sessions"], 0);
  EXPECT_EQ(report["stats"]["replays"], 0);
  for (const char* list :
       {"plans", "cuts", "rejections", "squashes", "notes"}) {
    EXPECT_TRUE(report[list].is_array() && report[list].empty()) << list;
  }
}

TEST_F(ReportTest, CountersAreOfAllSessionsTogether) {
  Passes(0, 1);
  Passes(1, 2);
  EXPECT_EQ(SumOfStats({sessions_[0]}).ops, 3u);
  EXPECT_EQ(SumOfStats(sessions_).ops, 9u);
  EXPECT_EQ(Report()["stats"]["ops"], 9);
}

TEST_F(ReportTest, TellsOfEachSessionsPlans) {
  Passes(0, 10);
  Passes(1, 1);
  const json report = Report();
  EXPECT_EQ(report["sessions"], 2);
  ASSERT_THAT(report["plans"], SizeIs(2));
  const json& plan = report["plans"][0];
  EXPECT_EQ(plan["state"], "ready");
  EXPECT_EQ(plan["ops"], 2);
  EXPECT_THAT(plan["operators"], ElementsAre("model::add", "model::scale"));
  EXPECT_THAT(plan["places"], ElementsAre("train.py:0"));
  EXPECT_EQ(plan["replays"], SumOfStats({sessions_[0]}).replays);
  ASSERT_THAT(plan["instances"], SizeIs(1));
  EXPECT_EQ(plan["instances"][0]["validations"], 2);
  const json& seen = report["plans"][1];
  EXPECT_EQ(seen["state"], "waiting to be recorded");
  EXPECT_EQ(seen["seen"], 1);
  EXPECT_THAT(seen["operators"], IsEmpty());
  EXPECT_THAT(seen["instances"], IsEmpty());
}

TEST_F(ReportTest, TellsWhereCutsCame) {
  Passes(1, 3);
  const json report = Report();
  ASSERT_THAT(report["cuts"], SizeIs(1));
  EXPECT_EQ(report["cuts"][0]["op"], "model::read");
  EXPECT_EQ(report["cuts"][0]["count"], 3);
  EXPECT_THAT(report["cuts"][0]["places"], ElementsAre("train.py:1"));
}

TEST_F(ReportTest, TellsWhatCameWhereAReplayWasLeft) {
  Passes(0, 10);
  Pass(0, /*left=*/true);
  const json report = Report();
  ASSERT_THAT(report["squashes"], SizeIs(1));
  const json& squash = report["squashes"][0];
  EXPECT_EQ(squash["signature"], report["plans"][0]["signature"]);
  EXPECT_EQ(squash["op"], 1);
  EXPECT_EQ(squash["found"], "model::read");
  EXPECT_EQ(squash["count"], 1);
  EXPECT_THAT(squash["places"], ElementsAre("train.py:0"));
}

TEST_F(ReportTest, SquashesInATimelineGetTheirOwnSessionsPlaces) {
  const Timeline::Position begin = timeline_.Start();
  for (const size_t session : {0, 1}) {
    Passes(session, 10);
    Pass(session, /*left=*/true);
  }
  Timeline::Excerpt excerpt = timeline_.Since(begin);
  AddPlaces(excerpt, sessions_);
  std::vector<std::string> places;
  for (const auto& [index, found] : excerpt.places) {
    EXPECT_EQ(excerpt.events[index].doing, Doing::kSquashing);
    places.insert(places.end(), found.begin(), found.end());
  }
  EXPECT_THAT(places, ElementsAre("train.py:0", "train.py:1"));
  excerpt.places.clear();
  AddPlaces(excerpt, {sessions_[1]});
  EXPECT_THAT(excerpt.places, SizeIs(1));
  timeline_.Stop();
}

}  // namespace
}  // namespace reprise::scheduler
