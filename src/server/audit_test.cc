#include "server/audit.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/command.h"
#include "core/event.h"

namespace holdfast::server {
namespace {

class FixedClock : public engine::Clock {
 public:
  BootTime Boot() override { return BootTime(Seconds(1)); }
  WallTime Wall() override { return WallTime(Seconds(1'700'000'000)); }
};

class AuditTest : public testing::Test {
 protected:
  AuditTest() { std::filesystem::create_directories(folder_); }
  ~AuditTest() override { std::filesystem::remove_all(folder_); }

  void Open(bool renewals = false, std::size_t queue_max = 1000) {
    auto opened =
        AuditLog::Open(clock_, {.path = path_, .renewals = renewals, .queue_max = queue_max});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    audit_ = std::move(*opened);
  }

  // Ends the log, so that everything is written.
  std::vector<nlohmann::json> Lines() {
    audit_.reset();
    return Read(path_);
  }
  static std::vector<nlohmann::json> Read(const std::string& path) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }

  template <typename Body>
  void Apply(Body&& body, core::Outcome&& outcome, std::vector<core::Event>&& events = {}) {
    core::Batch batch;
    batch.index = ++index_;
    batch.wall = WallTime(Millis(1'700'000'000'123));
    batch.commands.push_back({"alice", "default", std::forward<Body>(body)});
    core::Applied applied;
    applied.outcomes.push_back(std::move(outcome));
    applied.events = std::move(events);
    audit_->OnApplied(batch, applied);
  }

  FixedClock clock_;
  const std::string folder_ =
      testing::TempDir() + "audit." + testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = folder_ + "/audit.jsonl";
  std::uint64_t index_ = 0;
  std::unique_ptr<AuditLog> audit_;
};

core::Acquire AcquireOf(const char* resource) {
  core::Acquire acquire;
  acquire.resource = resource;
  acquire.request_id = "request-1";
  acquire.owner = "worker \"7\"";
  return acquire;
}

core::Granted GrantOf(core::Token token) {
  core::Granted granted;
  granted.token = token;
  granted.lease_id = Id128{1, 2, 3};
  return granted;
}

TEST_F(AuditTest, WritesAGrant) {
  Open();
  Apply(AcquireOf("jobs/1"), GrantOf(42));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1U);
  const nlohmann::json expected{{"time", "2023-11-14T22:13:20.123Z"},
                                {"kind", "command"},
                                {"index", 1},
                                {"principal", "alice"},
                                {"namespace", "default"},
                                {"resource", "jobs/1"},
                                {"verb", "ACQUIRE"},
                                {"outcome", "GRANTED"},
                                {"token", "42"},
                                {"owner", "worker \"7\""},
                                {"lease_fp", Fingerprint(Id128{1, 2, 3})},
                                {"request_fp", Fingerprint("request-1")}};
  EXPECT_EQ(lines[0], expected);
}

TEST_F(AuditTest, NeverWritesCapabilities) {
  Open(true);
  core::Acquire acquire = AcquireOf("a");
  acquire.session = Id128{9, 9};
  Apply(acquire, GrantOf(1));
  Apply(core::Renew{"a", Id128{1, 2, 3}}, core::Renewed{});
  Apply(core::KeepAlive{Id128{9, 9}}, core::SessionKept{});
  audit_.reset();
  std::ifstream file(path_);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(text.find(ToHex(Id128{1, 2, 3})), std::string::npos);
  EXPECT_EQ(text.find(ToHex(Id128{9, 9})), std::string::npos);
  EXPECT_EQ(text.find("request-1"), std::string::npos);
  EXPECT_NE(text.find(Fingerprint(Id128{9, 9})), std::string::npos);
}

TEST_F(AuditTest, WritesWhatChangedAndWhatWasRefused) {
  Open();
  core::Refused refused;
  refused.code = core::RefusalCode::kEnded;
  refused.cause = core::Cause::kExpired;
  Apply(AcquireOf("a"), std::move(refused));
  Apply(core::Renew{"a", Id128{1}}, core::Renewed{});
  Apply(core::Renew{"a", Id128{1}}, core::NotRenewed{core::Cause::kHoldLimit, {}, {}});
  core::SessionKept alive;
  alive.alive = true;
  Apply(core::KeepAlive{Id128{2}}, std::move(alive));
  Apply(core::KeepAlive{Id128{2}}, core::SessionKept{false, {}, core::Cause::kSessionExpired});
  Apply(core::Detach{}, core::Done{});
  Apply(core::EpochStart{}, core::Done{});
  Apply(core::Break{"a", "stuck", false, false, false}, core::Broken{});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0]["outcome"], "ENDED");
  EXPECT_EQ(lines[0]["cause"], "EXPIRED");
  EXPECT_EQ(lines[1]["verb"], "RENEW");
  EXPECT_EQ(lines[1]["outcome"], "NOT_RENEWED");
  EXPECT_EQ(lines[1]["cause"], "HOLD_LIMIT");
  EXPECT_EQ(lines[2]["verb"], "KEEP_ALIVE");
  EXPECT_EQ(lines[2]["session_fp"], Fingerprint(Id128{2}));
  EXPECT_EQ(lines[3]["verb"], "EPOCH_START");
  EXPECT_EQ(lines[4]["verb"], "BREAK");
  EXPECT_EQ(lines[4]["reason"], "stuck");
  EXPECT_EQ(lines[4]["outcome"], "NOT_TAKEN");
}

TEST_F(AuditTest, WritesRenewalsIfAskedFor) {
  Open(true);
  Apply(core::Renew{"a", Id128{1}}, core::Renewed{});
  EXPECT_EQ(Lines().at(0)["outcome"], "RENEWED");
}

TEST_F(AuditTest, WritesWhatEndedByItself) {
  Open();
  const auto event = [](core::EventKind kind, core::Cause cause) {
    core::Event made;
    made.kind = kind;
    made.cause = cause;
    made.name_space = "default";
    made.resource = "a";
    made.token = 7;
    made.capability = Id128{5};
    return made;
  };
  Apply(core::Release{"a", Id128{5}}, core::Released{true, core::Cause::kReleased},
        {event(core::EventKind::kEnded, core::Cause::kReleased),  // the command tells it
         event(core::EventKind::kGranted, core::Cause::kHandedOver),
         event(core::EventKind::kGranted, core::Cause::kAcquired),  // the command tells it
         event(core::EventKind::kEnded, core::Cause::kExpired),
         event(core::EventKind::kWaiterLeft, core::Cause::kWaitTimedOut),
         event(core::EventKind::kWaiting, core::Cause::kNone),
         event(core::EventKind::kSessionEnded, core::Cause::kSessionExpired)});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0]["verb"], "RELEASE");
  EXPECT_EQ(lines[1]["kind"], "event");
  EXPECT_EQ(lines[1]["cause"], "HANDED_OVER");
  EXPECT_EQ(lines[1]["token"], "7");
  EXPECT_EQ(lines[1]["lease_fp"], Fingerprint(Id128{5}));
  EXPECT_EQ(lines[2]["cause"], "EXPIRED");
  EXPECT_EQ(lines[3]["cause"], "WAIT_TIMED_OUT");
  EXPECT_EQ(lines[4]["session_fp"], Fingerprint(Id128{5}));
  EXPECT_FALSE(lines[4].contains("lease_fp"));
}

TEST_F(AuditTest, WritesDenials) {
  Open();
  audit_->Denied("mallory", "Break", "billing",
                 Error{ErrorCode::kPermissionDenied, "no\n\"admin\"", "", ""});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["kind"], "denied");
  EXPECT_EQ(lines[0]["principal"], "mallory");
  EXPECT_EQ(lines[0]["outcome"], "PERMISSION_DENIED");
  EXPECT_EQ(lines[0]["reason"], "no\n\"admin\"");
}

TEST_F(AuditTest, CountsWhatDidNotFit) {
  Open(false, 3);
  core::Batch batch;
  core::Applied applied;
  for (int i = 0; i < 4; ++i) {
    batch.commands.push_back({"alice", "default", AcquireOf("a")});
    applied.outcomes.emplace_back(GrantOf(1));
  }
  audit_->OnApplied(batch, applied);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["kind"], "gap");
  EXPECT_EQ(lines[0]["dropped"], 4);
}

TEST_F(AuditTest, TheFileIsPrivateAndAppendedTo) {
  Open();
  Apply(AcquireOf("a"), GrantOf(1));
  audit_.reset();
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  Open();
  Apply(AcquireOf("b"), GrantOf(2));
  EXPECT_EQ(Lines().size(), 2U);
}

TEST_F(AuditTest, GoesOnInANewFileAfterARotation) {
  Open();
  Apply(AcquireOf("a"), GrantOf(1));
  std::filesystem::rename(path_, path_ + ".1");
  audit_->Reopen();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!std::filesystem::exists(path_) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  Apply(AcquireOf("b"), GrantOf(2));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["resource"], "b");
  const auto rotated = Read(path_ + ".1");
  ASSERT_EQ(rotated.size(), 1U);
  EXPECT_EQ(rotated[0]["resource"], "a");
}

TEST_F(AuditTest, StaysWithTheOldFileIfItCannotBeOpenedAnew) {
  Open();
  std::filesystem::rename(folder_, folder_ + ".moved");
  audit_->Reopen();
  Apply(AcquireOf("a"), GrantOf(1));
  audit_.reset();
  EXPECT_EQ(Read(folder_ + ".moved/audit.jsonl").size(), 1U);
  std::filesystem::remove_all(folder_ + ".moved");
}

TEST_F(AuditTest, AFileThatCannotBeOpenedIsNamed) {
  const auto opened = AuditLog::Open(clock_, {.path = folder_ + "/no/such/folder"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kIo);
  EXPECT_NE(opened.error().message.find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::server
