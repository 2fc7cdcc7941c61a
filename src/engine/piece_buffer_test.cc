#include "engine/piece_buffer.h"

#include <gtest/gtest.h>

namespace holdfast::engine {
namespace {

std::string All(const PieceBuffer& buffer) {
  std::string all;
  for (const std::string_view piece : buffer.View()) {
    EXPECT_LE(piece.size(), PieceBuffer::kPieceBytes);
    all += piece;
  }
  return all;
}

TEST(PieceBuffer, HoldsWhatWasAppendedAndNothingAfterClear) {
  PieceBuffer buffer;
  EXPECT_EQ(All(buffer), "");
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string part(static_cast<std::size_t>(i), static_cast<char>('a' + i % 26));
    buffer.Append(part);
    expected += part;
  }
  buffer.Append(std::string(3 * PieceBuffer::kPieceBytes, 'z'));
  expected.append(3 * PieceBuffer::kPieceBytes, 'z');
  EXPECT_EQ(All(buffer), expected);
  EXPECT_EQ(buffer.size(), expected.size());
  buffer.Clear();
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(All(buffer), "");
  buffer.Append("again");
  EXPECT_EQ(All(buffer), "again");
}

}  // namespace
}  // namespace holdfast::engine
