// Thousands of sessions of the client library, driven by lines on standard input:
//
//   session_herd ENDPOINTS SESSIONS CLIENTS TTL_MS
//
//   report      one JSON line: states, and the attempts since the last report
//   reopen MS   closes every session and opens another one in its place, spread over MS
//
// Ends with standard input. Prints "open" when all sessions are safe for the first time.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "holdfast/client.h"
#include "holdfast/session.h"

namespace {

using holdfast::client::Attempt;
using holdfast::client::AttemptEnd;
using holdfast::client::SessionState;

class Counts : public holdfast::client::Metrics {
 public:
  void OnAttempt(const Attempt& attempt) override {
    const std::lock_guard lock(mutex_);
    ++ends_[static_cast<std::size_t>(attempt.end)];
    if (attempt.end == AttemptEnd::kAnswered) {
      took_.push_back(attempt.took);
    }
  }
  void OnUnknownOutcome(std::string_view) override { ++unknown_; }
  void OnHold(const holdfast::client::LockUpdate&) override {}
  void OnSession(const holdfast::client::SessionUpdate& update) override {
    const std::lock_guard lock(mutex_);
    jeopardy_ += update.state == SessionState::kJeopardy ? 1 : 0;
    expired_ += update.state == SessionState::kExpired ? 1 : 0;
    if (update.state == SessionState::kNotOpened || update.state == SessionState::kExpired) {
      not_opened_ += update.state == SessionState::kNotOpened ? 1 : 0;
      why_ = update.error ? update.error->message : "refused";
    }
  }

  std::string Report(std::size_t safe) {
    const std::lock_guard lock(mutex_);
    std::sort(took_.begin(), took_.end());
    const auto quantile = [this](std::size_t per_thousand) {
      return took_.empty()
                 ? 0.0
                 : static_cast<double>(took_[(took_.size() - 1) * per_thousand / 1000].count()) /
                       1e6;
    };
    std::ostringstream out;
    out << "{\"safe\": " << safe << ", \"jeopardy\": " << jeopardy_ << ", \"expired\": " << expired_
        << ", \"not_opened\": " << not_opened_ << ", \"why\": \"" << why_ << "\""
        << ", \"unknown\": " << unknown_ << ", \"answered\": " << ends_[0]
        << ", \"failed\": " << ends_[1] + ends_[2] + ends_[3] << ", \"p50_ms\": " << quantile(500)
        << ", \"p99_ms\": " << quantile(990) << ", \"max_ms\": " << quantile(1000) << "}";
    took_.clear();
    ends_ = {};
    return out.str();
  }

 private:
  std::mutex mutex_;
  std::array<std::uint64_t, 4> ends_{};
  std::vector<holdfast::Duration> took_;
  std::atomic<std::uint64_t> unknown_{0};
  std::uint64_t jeopardy_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t not_opened_ = 0;
  std::string why_;  // the newest of those that are over
};

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    items.push_back(item);
  }
  return items;
}

class Herd {
 public:
  Herd(std::vector<std::string> endpoints, std::size_t sessions, std::size_t clients,
       std::int64_t ttl_ms)
      : sessions_(sessions), ttl_(holdfast::Millis(ttl_ms)) {
    for (std::size_t i = 0; i < clients; ++i) {
      holdfast::client::ClientOptions options;
      options.endpoints = endpoints;
      options.timeout = holdfast::Seconds(60);
      options.metrics = counts_;
      // Different clients begin at different nodes.
      std::rotate(endpoints.begin(), endpoints.begin() + 1, endpoints.end());
      auto client = holdfast::client::Client::Create(options);
      if (!client.ok()) {
        std::cerr << client.error().message << "\n";
        std::exit(1);
      }
      clients_.push_back(std::move(*client));
    }
  }

  void Open(std::size_t number) {
    holdfast::client::SessionGoal goal;
    goal.open.ttl = ttl_;
    sessions_[number] = clients_[number % clients_.size()]->KeepSession(goal);
  }

  void OpenAll() {
    Reopen(std::chrono::milliseconds(sessions_.size() / 2));  // 2,000 a second
    for (const auto& session : sessions_) {
      session->WaitUntilOpen();
    }
  }

  void Reopen(std::chrono::milliseconds over) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      // The rate is the point; nothing is waited for.
      std::unique_lock lock(pace_mutex_);
      pace_.wait_until(lock, begin + over * static_cast<std::int64_t>(i) /
                                         static_cast<std::int64_t>(sessions_.size()));
      lock.unlock();
      Open(i);
    }
  }

  std::string Report() {
    return counts_->Report(static_cast<std::size_t>(std::count_if(
        sessions_.begin(), sessions_.end(),
        [](const auto& session) { return session->Current().state == SessionState::kSafe; })));
  }

 private:
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  std::vector<std::unique_ptr<holdfast::client::Client>> clients_;
  std::vector<std::unique_ptr<holdfast::client::Session>> sessions_;
  const holdfast::Duration ttl_;
  std::mutex pace_mutex_;
  std::condition_variable pace_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: session_herd ENDPOINTS SESSIONS CLIENTS TTL_MS\n";
    return 64;
  }
  Herd herd(Split(argv[1]), std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10),
            std::strtol(argv[4], nullptr, 10));
  herd.OpenAll();
  std::cout << "open" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "report") {
      std::cout << herd.Report() << std::endl;
    } else if (line.rfind("reopen ", 0) == 0) {
      herd.Reopen(std::chrono::milliseconds(std::strtol(line.c_str() + 7, nullptr, 10)));
      std::cout << "reopened" << std::endl;
    }
  }
  return 0;
}
