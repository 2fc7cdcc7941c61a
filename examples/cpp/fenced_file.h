// A file that takes part in fencing: it remembers the greatest token that it has seen and refuses
// every smaller one. This check, not the lock, is what keeps a paused writer out for good.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

class FencedFile {
 public:
  // `path` holds the lines, `path`.token the greatest token.
  explicit FencedFile(const std::string& path)
      : lines_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)),
        token_(open((path + ".token").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  ~FencedFile() {
    close(lines_);
    close(token_);
  }
  FencedFile(const FencedFile&) = delete;
  FencedFile& operator=(const FencedFile&) = delete;

  // False if a greater token has been here. Check and write are one step for all processes.
  bool Append(std::uint64_t token, const std::string& line) {
    flock(token_, LOCK_EX);
    const bool allowed = token >= GreatestToken();
    if (allowed) {
      const std::string text = std::to_string(token) + "\n";
      const std::string whole = line + "\n";
      const bool stored = pwrite(token_, text.data(), text.size(), 0) > 0 && fsync(token_) == 0 &&
                          write(lines_, whole.data(), whole.size()) > 0 && fsync(lines_) == 0;
      if (!stored) {
        std::abort();
      }
    }
    flock(token_, LOCK_UN);
    return allowed;
  }

 private:
  std::uint64_t GreatestToken() const {
    char text[32] = {};
    return pread(token_, text, sizeof text - 1, 0) > 0 ? std::strtoull(text, nullptr, 10) : 0;
  }

  int lines_;
  int token_;
};
