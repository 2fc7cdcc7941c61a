// Snapshot and digest of the whole state: a header, then the section of each part, in the order in
// which they refer to each other. Format: docs/formats/state.md.
#include "core/limits.h"
#include "core/machine.h"

namespace holdfast::core {
namespace {

constexpr std::uint32_t kStateFormat = 1;

}  // namespace

void Machine::Save(const Saver::Sink& sink) const {
  Saver saver(sink);
  saver(kStateFormat, feature_level_, now_, wall_, index_, epoch_, trace_, floors_.starts());
  namespaces_.Save(saver);
  requests_.Save(saver);
  sessions_.Save(saver);
  locks_.Save(saver);
  saver.Flush();
}

Result<std::unique_ptr<Machine>> Machine::Load(std::string_view bytes) {
  ByteReader in(bytes);
  ArchiveReader reader(in);
  auto machine = std::make_unique<Machine>();
  std::uint32_t format = 0;
  std::vector<EpochFloors::Start> starts;
  reader(format, machine->feature_level_);
  if (in.ok() && (format != kStateFormat || machine->feature_level_ > kFeatureLevelMax)) {
    return Error{ErrorCode::kUnsupported,
                 "the snapshot has format " + std::to_string(format) + " and feature level " +
                     std::to_string(machine->feature_level_) + ", this build knows 1 and " +
                     std::to_string(kFeatureLevelMax),
                 {},
                 {}};
  }
  reader(machine->now_, machine->wall_, machine->index_, machine->epoch_, machine->trace_, starts);
  machine->floors_.Restore(std::move(starts));
  machine->namespaces_.Load(reader);
  machine->requests_.Load(reader, machine->timers_);
  machine->sessions_.Load(reader, machine->timers_);
  machine->locks_.Load(reader, machine->timers_);
  if (!in.ok() || !in.AtEnd()) {
    return Error{ErrorCode::kCorrupt, "the snapshot does not decode", {}, {}};
  }
  return machine;
}

Id128 Machine::Digest() const {
  Id128 digest{};
  Save([&](std::string_view piece) {
    std::string chained(reinterpret_cast<const char*>(digest.data()), digest.size());
    chained.append(piece);
    digest = Hash128(chained);
  });
  return digest;
}

}  // namespace holdfast::core
