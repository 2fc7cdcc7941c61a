#include "core/requests.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/limits.h"

namespace holdfast::core {
namespace {

class RequestsTest : public testing::Test {
 protected:
  RequestsTest() { SetMemory(Seconds(10)); }

  void SetMemory(Duration memory) { namespaces_.At(id_).policy.request_memory = memory; }

  // Runs the timers that are due at `now`, as Machine does, with a budget for the batch.
  void Advance(Duration now, std::size_t budget = kDuePerBatchMax) {
    now_ = Timestamp(now);
    Context context = ContextOf(budget);
    while (context.due_left > 0 && timers_.HasDue(now_)) {
      --context.due_left;
      const Timer timer = timers_.PopFirst();
      if (timer.kind == TimerKind::kForgetRequests) {
        requests_.OnForgetRequests(context, static_cast<NamespaceId>(timer.id));
      } else {
        requests_.OnForgetClients(context, static_cast<NamespaceId>(timer.id));
      }
    }
    EXPECT_EQ(requests_.FindInconsistency(timers_), "");
  }

  Slot Add(const std::string& request_id, const ClientContext& client = {}) {
    Context context = ContextOf(kDuePerBatchMax);
    const Slot tenant = namespaces_.TenantOf(id_, "p");
    requests_.NoteClient(context, tenant, client);
    const Slot slot = requests_.Add(context, namespaces_.TenantOf(id_, "p"), request_id, client);
    EXPECT_EQ(requests_.FindInconsistency(timers_), "");
    return slot;
  }

  void Note(const ClientContext& client) {
    Context context = ContextOf(kDuePerBatchMax);
    requests_.NoteClient(context, namespaces_.TenantOf(id_, "p"), client);
    EXPECT_EQ(requests_.FindInconsistency(timers_), "");
  }

  bool Knows(const std::string& request_id) {
    return requests_.Find(namespaces_.TenantOf(id_, "p"), request_id) != kNoSlot;
  }

  Context ContextOf(std::size_t budget) {
    return Context{now_, now_, WallTime{}, 1, timers_, floors_, applied_, budget};
  }

  Namespaces namespaces_;
  NamespaceId id_ = namespaces_.Find("default");
  Requests requests_{namespaces_};
  Timers timers_;
  EpochFloors floors_;
  Applied applied_;
  Timestamp now_{};
};

TEST_F(RequestsTest, EachIsForgottenAfterItsMemoryAndTheTimerIsSetAgain) {
  Add("a");
  Advance(Seconds(4));
  Add("b");
  Advance(Seconds(10));
  EXPECT_TRUE(Knows("a")) << "over only after its last moment";
  Advance(Millis(10'001));
  EXPECT_FALSE(Knows("a"));
  EXPECT_TRUE(Knows("b"));
  EXPECT_EQ(timers_.size(), 1U);
  Advance(Millis(14'001));
  EXPECT_FALSE(Knows("b"));
  EXPECT_EQ(timers_.size(), 0U);
  Add("c");
  Advance(Millis(24'002));
  EXPECT_FALSE(Knows("c"));
}

TEST_F(RequestsTest, TouchBeginsTheMemoryAnew) {
  const Slot a = Add("a");
  Add("b");
  Advance(Seconds(6));
  Context context = ContextOf(kDuePerBatchMax);
  requests_.Touch(context, a);
  Advance(Millis(10'001));
  EXPECT_TRUE(Knows("a"));
  EXPECT_FALSE(Knows("b"));
  Advance(Millis(16'001));
  EXPECT_FALSE(Knows("a"));
}

TEST_F(RequestsTest, AWaitingRequestIsKeptForAsLongAsItWaits) {
  const Slot a = Add("a");
  requests_.At(a).kind = RecordKind::kWaiting;
  for (int second = 1; second < 100; ++second) {
    Advance(Seconds(second));
  }
  EXPECT_TRUE(Knows("a"));
  requests_.At(a).kind = RecordKind::kRefused;
  Advance(Seconds(120));
  EXPECT_FALSE(Knows("a"));
}

TEST_F(RequestsTest, AShorterPolicyKeepsTheOrderOfForgetting) {
  Add("old");
  SetMemory(Seconds(1));
  Add("new");
  Advance(Seconds(5));
  EXPECT_TRUE(Knows("old"));
  EXPECT_TRUE(Knows("new")) << "not before what came before it";
  Advance(Millis(10'001));
  EXPECT_FALSE(Knows("old"));
  EXPECT_FALSE(Knows("new"));
  Add("next");
  Advance(Millis(11'002));
  EXPECT_FALSE(Knows("next"));
}

TEST_F(RequestsTest, ForgettingKeepsToTheBudgetOfABatch) {
  for (int i = 0; i < 100; ++i) {
    Add("r" + std::to_string(i));
  }
  Advance(Seconds(11), 31);  // one for the timer
  EXPECT_EQ(requests_.size(), 70U);
  EXPECT_FALSE(Knows("r29"));
  EXPECT_TRUE(Knows("r30"));
  Advance(Seconds(11));
  EXPECT_EQ(requests_.size(), 0U);
}

TEST_F(RequestsTest, TheWatermarkFreesInOrderOfArrivalUpToTheFirstUnanswered) {
  Add("a", {"c", 1, 0});
  Add("b", {"c", 2, 0});
  Add("d", {"c", 4, 0});
  Add("e", {"c", 3, 0});
  Note({"c", 5, 3});
  EXPECT_FALSE(Knows("a"));
  EXPECT_FALSE(Knows("b"));
  EXPECT_TRUE(Knows("d"));
  Note({"c", 6, 4});
  EXPECT_TRUE(Knows("e")) << "stands behind 4, which is not answered";
  Note({"c", 7, 2});
  EXPECT_TRUE(Knows("d")) << "a watermark never falls";
  Note({"c", 8, 5});
  EXPECT_FALSE(Knows("d"));
  EXPECT_FALSE(Knows("e"));
  const Slot tenant = namespaces_.TenantOf(id_, "p");
  EXPECT_TRUE(requests_.IsBelowWatermark(tenant, {"c", 4, 0}));
  EXPECT_FALSE(requests_.IsBelowWatermark(tenant, {"c", 5, 0}));
  EXPECT_FALSE(requests_.IsBelowWatermark(tenant, {"other", 4, 0}));
  EXPECT_FALSE(requests_.IsBelowWatermark(tenant, {"", 0, 0}));
}

TEST_F(RequestsTest, AWaitingRequestOutlivesItsWatermark) {
  const Slot a = Add("a", {"c", 1, 0});
  requests_.At(a).kind = RecordKind::kWaiting;
  Add("b", {"c", 2, 0});
  Note({"c", 3, 3});
  EXPECT_TRUE(Knows("a"));
  EXPECT_FALSE(Knows("b"));
}

TEST_F(RequestsTest, AForgottenClientLeavesItsRequestsForTheirMemory) {
  const Slot a = Add("a", {"c", 1, 0});
  Advance(Seconds(8));
  Context context = ContextOf(kDuePerBatchMax);
  requests_.Touch(context, a);
  Note({"d", 1, 0});
  Advance(Millis(10'001));
  EXPECT_TRUE(Knows("a"));
  EXPECT_EQ(requests_.At(a).client, kNoSlot);
  Advance(Millis(18'001));
  EXPECT_FALSE(Knows("a"));
  EXPECT_EQ(namespaces_.At(id_).leftovers, 0U);
}

TEST_F(RequestsTest, EverythingIsChargedAndGivenBack) {
  const Slot tenant = namespaces_.TenantOf(id_, "p");
  Add("a", {"c", 1, 0});
  EXPECT_EQ(namespaces_.TenantAt(tenant).request_bytes,
            Requests::kRecordBytes + 1 + Requests::kClientBytes);
  namespaces_.At(id_).policy.request_bytes_per_tenant =
      namespaces_.TenantAt(tenant).request_bytes + Requests::kRecordBytes + 4;
  EXPECT_TRUE(requests_.HasRoom(tenant, "1234"));
  EXPECT_FALSE(requests_.HasRoom(tenant, "12345"));
  namespaces_.At(id_).policy.request_bytes_per_tenant = namespaces_.TenantAt(tenant).request_bytes;
  const Slot without_room = Add("1234", {"no room for me", 1, 0});
  EXPECT_EQ(requests_.At(without_room).client, kNoSlot) << "kept for the whole memory instead";
  Advance(Seconds(21));
  EXPECT_EQ(requests_.size(), 0U);
  EXPECT_EQ(namespaces_.At(id_).leftovers, 0U);
}

TEST_F(RequestsTest, FindsEachOfManyInAllShards) {
  constexpr int kMany = 20'000;
  const Slot tenant = namespaces_.TenantOf(id_, "p");
  Context context = ContextOf(kDuePerBatchMax);
  for (int i = 0; i < kMany; ++i) {
    requests_.Add(context, tenant, "request-" + std::to_string(i), {});
  }
  for (int i = 0; i < kMany; ++i) {
    const Slot slot = requests_.Find(tenant, "request-" + std::to_string(i));
    ASSERT_NE(slot, kNoSlot);
    ASSERT_EQ(requests_.At(slot).request_id, "request-" + std::to_string(i));
  }
  EXPECT_FALSE(Knows("request-" + std::to_string(kMany)));
  EXPECT_EQ(requests_.FindInconsistency(timers_), "");
  Advance(Seconds(11), kMany + 1);
  EXPECT_EQ(requests_.size(), 0U);
}

TEST(Fingerprint, DependsOnEveryParameterAndIsNeverZero) {
  Acquire plain;
  plain.resource = "a";
  plain.owner = "o";
  std::vector<Acquire> others(8, plain);
  others[0].resource = "b";
  others[1].owner = "p";
  others[2].ttl = Seconds(1);
  others[3].wait = Seconds(1);
  others[4].session[15] = 1;
  others[5].metadata = {{"k", "v"}};
  others[6].campaign = true;
  others[7].campaign = true;
  others[7].value = "v";
  std::vector<std::uint64_t> seen = {FingerprintOf(plain)};
  for (const Acquire& other : others) {
    for (const std::uint64_t known : seen) {
      EXPECT_NE(FingerprintOf(other), known);
    }
    seen.push_back(FingerprintOf(other));
    EXPECT_NE(seen.back(), 0U);
  }
  Acquire same = plain;
  same.request_id = "another";
  same.lease_id[0] = 1;
  same.client = {"c", 1, 0};
  EXPECT_EQ(FingerprintOf(same), FingerprintOf(plain));
}

}  // namespace
}  // namespace holdfast::core
