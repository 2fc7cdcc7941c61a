#include "engine/trim_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace holdfast::engine {
namespace {

constexpr std::size_t kZones = 2;

}  // namespace

std::optional<TrimPlan> PlanTrim(const std::vector<PeerState>& nodes, std::uint64_t first_index,
                                 std::uint64_t last_index, bool too_large,
                                 const std::string& without) {
  std::set<std::string> zones;
  std::map<std::string, TrimPlan::Holder> newest;  // of each zone
  std::uint64_t needed = last_index;
  for (const PeerState& node : nodes) {
    zones.insert(node.record.zone);
    if (node.record.snapshot_index > 0 && (without.empty() || node.name != without)) {
      TrimPlan::Holder& holder = newest[node.record.zone];
      if (node.record.snapshot_index > holder.index) {
        holder = {node.name, node.record.snapshot_index, node.record.snapshot_hash};
      }
    }
    if (node.alive && !too_large) {
      needed = std::min(needed, node.record.applied);
    }
  }
  const std::size_t wanted = std::min(kZones, zones.size());
  if (newest.size() < wanted || wanted == 0) {
    return std::nullopt;
  }
  TrimPlan plan;
  for (auto& [zone, holder] : newest) {
    plan.holders.push_back(std::move(holder));
  }
  std::sort(plan.holders.begin(), plan.holders.end(),
            [](const auto& a, const auto& b) { return a.index > b.index; });
  plan.holders.resize(wanted);
  // The oldest of them, so that each could bring a node back; the entry behind it stays to confirm
  // the hash.
  plan.first_index = std::min({plan.holders.back().index + 1, needed + 1, last_index});
  if (plan.first_index <= first_index) {
    return std::nullopt;
  }
  return plan;
}

}  // namespace holdfast::engine
