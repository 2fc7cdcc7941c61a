// What the wrapper and its supervisor say to each other, over a pair of sockets that keeps message
// boundaries. Both are forks of one program, so messages are plain structs. The end of the wrapper,
// however it comes, is the end of the stream at the supervisor's side, and the other way round.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <sys/types.h>

#include "base/time.h"
#include "exec/supervision.h"
#include "holdfast/result.h"

namespace holdfast::exec {

struct ToSupervisor {
  enum class Kind { kStart, kLease, kRevoked, kLost, kSignal, kResume };
  static constexpr std::size_t kLeaseIdSize = 64;

  Kind kind = Kind::kLease;
  int signal = 0;       // kSignal
  BootTime deadline{};  // kStart, kLease, kRevoked
  // kStart
  StopTimes times;
  std::uint64_t fencing_token = 0;
  char lease_id[kLeaseIdSize] = {};  // with a 0 behind it
};

struct ToWrapper {
  enum class Kind { kSuspend, kStragglers, kEnded };

  Kind kind = Kind::kEnded;
  std::size_t stragglers = 0;
  // kEnded: nobody is left.
  int wait_status = 0;
  int exec_error = 0;  // of execve; 0: the command ran
  bool started = false;
  StopReason reason = StopReason::kNone;
};

// A file descriptor that is closed with its owner.
class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept;
  ~File();

  int number() const { return number_; }
  void Close();

 private:
  int number_ = -1;
};

struct LinkEnds {
  File wrapper;
  File supervisor;
};
// Closed on exec.
Result<LinkEnds> MakeLink();

// False: the other side is gone, or does not read.
bool SendBytes(int file, const void* message, std::size_t size);
enum class Received { kMessage, kNothing, kGone };
Received ReceiveBytes(int file, void* message, std::size_t size);

// Neither blocks.
template <typename Message>
bool Send(int file, const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return SendBytes(file, &message, sizeof message);
}
template <typename Message>
Received Receive(int file, Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return ReceiveBytes(file, &message, sizeof message);
}

}  // namespace holdfast::exec
