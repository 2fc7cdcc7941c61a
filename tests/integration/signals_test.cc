// Signals have a binary of their own: they must be blocked before the first thread of the process.
#include <csignal>
#include <filesystem>
#include <thread>

#include <unistd.h>

#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {
namespace {

class SignalsTest : public ServerFixture {};

TEST_F(SignalsTest, HangupReopensTheAuditLogAndTermStops) {
  BlockSignals();
  config().audit_log = folder() + "/audit.jsonl";
  Start();
  std::filesystem::rename(config().audit_log, config().audit_log + ".1");
  bool reopened = false;
  std::thread operator_thread([&] {
    kill(getpid(), SIGHUP);
    reopened =
        testing_support::WaitUntil([this] { return std::filesystem::exists(config().audit_log); });
    kill(getpid(), SIGTERM);
  });
  RunUntilSignal(server());
  operator_thread.join();
  EXPECT_TRUE(reopened);
  EXPECT_EQ(server().counters().calls, 0U);
}

}  // namespace
}  // namespace holdfast::server
