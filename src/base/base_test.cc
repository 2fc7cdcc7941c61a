#include <gtest/gtest.h>

#include "base/archive.h"
#include "base/crc32c.h"
#include "base/id.h"

namespace holdfast {
namespace {

TEST(Crc32c, MatchesTheCheckValueOfTheStandard) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283U);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c("56789", Crc32c("1234")), 0xe3069283U);
}

TEST(Id, HexRoundTripAndRefusesWhatIsNotHex) {
  const Id128 id = RandomId();
  EXPECT_EQ(ParseId(ToHex(id)), id);
  EXPECT_FALSE(ParseId("00"));
  EXPECT_FALSE(ParseId(std::string(32, 'G')));
  EXPECT_FALSE(ParseId(std::string(32, 'A')));
  EXPECT_EQ(Fingerprint(id).size(), 12U);
}

TEST(Bytes, VarintsRoundTripAtTheirEdges) {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, ~std::uint64_t{0}}) {
    ByteWriter out;
    out.PutVarint(value);
    out.PutSigned(static_cast<std::int64_t>(value));
    ByteReader in(out.bytes());
    EXPECT_EQ(in.Varint(), value);
    EXPECT_EQ(in.Signed(), static_cast<std::int64_t>(value));
    EXPECT_TRUE(in.ok() && in.AtEnd());
  }
}

TEST(Bytes, ReaderFailsOnShortAndOverlongInput) {
  ByteReader overlong(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
  overlong.Varint();
  EXPECT_FALSE(overlong.ok());
  ByteReader short_string(
      std::string_view("\x05"
                       "ab",
                       3));
  EXPECT_TRUE(short_string.String().empty());
  EXPECT_FALSE(short_string.ok());
}

TEST(Archive, AVectorCountThatCannotFitIsRefused) {
  ByteWriter out;
  out.PutVarint(1000);
  ByteReader in(out.bytes());
  ArchiveReader reader(in);
  std::vector<std::string> items;
  reader(items);
  EXPECT_FALSE(reader.ok());
  EXPECT_TRUE(items.empty());
}

}  // namespace
}  // namespace holdfast
