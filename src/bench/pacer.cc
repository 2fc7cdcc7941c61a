#include "bench/pacer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include "bench/grpc_link.h"

namespace holdfast::bench {

struct Pacer::Shared {
  std::atomic<bool> poked = false;  // an event of ours is in the queue
  QueueEvent on_poke = [this](bool) { poked.store(false); };
  grpc::Alarm alarm;

  std::mutex mutex;
  std::condition_variable stopped;
  bool stop = false;  // guarded by mutex

  std::thread thread;
};

Pacer::Pacer(grpc::CompletionQueue* queue, LoadTime begin, Duration interval)
    : shared_(std::make_unique<Shared>()) {
  const Duration step = std::max<Duration>(interval, std::chrono::microseconds(250));
  shared_->thread = std::thread([shared = shared_.get(), queue, begin, step] {
    std::unique_lock lock(shared->mutex);
    for (LoadTime next = begin; !shared->stop; next += step) {
      if (shared->stopped.wait_until(lock, next, [shared] { return shared->stop; })) {
        return;
      }
      if (!shared->poked.exchange(true)) {
        shared->alarm.Set(queue, std::chrono::system_clock::time_point(), &shared->on_poke);
      }
    }
  });
}

Pacer::~Pacer() {
  Stop();
}

void Pacer::Stop() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->stopped.notify_all();
  if (shared_->thread.joinable()) {
    shared_->thread.join();
  }
}

}  // namespace holdfast::bench
