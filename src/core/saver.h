// Streams a snapshot in pieces of about a megabyte, so that saving a large state needs little
// memory beside it.
#pragma once

#include <functional>
#include <string_view>

#include "base/archive.h"
#include "base/bytes.h"

namespace holdfast::core {

class Saver {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit Saver(const Sink& sink) : sink_(sink) {}

  template <typename... T>
  void operator()(const T&... fields) {
    ArchiveWriter writer(out_);
    writer(fields...);
    if (out_.size() >= kPieceBytes) {
      Flush();
    }
  }
  void Flush() {
    if (out_.size() > 0) {
      sink_(out_.bytes());
      out_.Clear();
    }
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
  const Sink& sink_;
  ByteWriter out_;
};

}  // namespace holdfast::core
