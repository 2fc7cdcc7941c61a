#include "exec/process_tree.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace holdfast::exec {
namespace {

// A child in a group of its own with a name that is hard to read, and its child in a session of its
// own. Both wait for a signal.
class ProcessTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe(ready.data()), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_NAME, "a) S 1 (b");
      if (fork() == 0) {
        setsid();
        (void)!write(ready[1], "x", 1);
      }
      for (;;) {
        pause();
      }
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  void TearDown() override {
    SignalDescendants(getpid(), SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0 || errno != ECHILD) {
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  pid_t child_ = -1;
};

TEST_F(ProcessTreeTest, FindsChildrenInWhateverGroupOrSession) {
  EXPECT_EQ(CountDescendants(getpid()), 2u);
  EXPECT_EQ(CountDescendants(child_), 1u);
}

TEST_F(ProcessTreeTest, KillsAllAndCountsNoZombies) {
  EXPECT_EQ(SignalDescendants(getpid(), SIGKILL), 2u);
  int ended = 0;
  for (int status = 0; waitpid(-1, &status, 0) > 0; ++ended) {
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  EXPECT_EQ(ended, 2);  // the grandchild became a child
  EXPECT_EQ(CountDescendants(getpid()), 0u);
}

TEST_F(ProcessTreeTest, SparesAGroup) {
  EXPECT_EQ(SignalDescendants(getpid(), SIGKILL, child_), 2u);
  // The grandchild is dead before its parent, which alone can be waited for and was spared.
  ASSERT_EQ(kill(child_, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  pid_t grandchild = 0;
  ASSERT_GT(grandchild = waitpid(-1, &status, 0), 0);
  EXPECT_NE(grandchild, child_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

}  // namespace
}  // namespace holdfast::exec
