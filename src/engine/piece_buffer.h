// Bytes in pieces of a megabyte that stay allocated when they are cleared. To get hundreds of
// megabytes from the system, and to copy them when a string grows, takes longer than to fill them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::engine {

// Not thread-safe.
class PieceBuffer {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

  void Clear() {
    for (std::string& piece : pieces_) {
      piece.clear();
    }
    current_ = 0;
    size_ = 0;
  }

  void Append(std::string_view bytes) {
    size_ += bytes.size();
    while (!bytes.empty()) {
      if (current_ == pieces_.size()) {
        pieces_.emplace_back().reserve(kPieceBytes);
      }
      std::string& piece = pieces_[current_];
      const std::string_view part = bytes.substr(0, kPieceBytes - piece.size());
      piece.append(part);
      bytes.remove_prefix(part.size());
      current_ += piece.size() == kPieceBytes ? 1 : 0;
    }
  }

  std::size_t size() const { return size_; }
  std::vector<std::string_view> View() const {
    std::vector<std::string_view> view;
    for (const std::string& piece : pieces_) {
      if (!piece.empty()) {
        view.emplace_back(piece);
      }
    }
    return view;
  }

 private:
  std::vector<std::string> pieces_;
  std::size_t current_ = 0;  // the piece that is not full
  std::size_t size_ = 0;
};

}  // namespace holdfast::engine
