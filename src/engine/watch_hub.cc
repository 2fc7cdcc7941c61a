#include "engine/watch_hub.h"

#include <utility>

namespace holdfast::engine {

void WatchHub::StartAt(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  last_index_ = index;
  history_from_ = index;
}

void WatchHub::Skip(std::uint64_t index) {
  Watchers to_wake;
  {
    const std::lock_guard lock(mutex_);
    history_.clear();
    last_index_ = index;
    history_from_ = index;
    for (const auto& [id, watcher] : watchers_) {
      if (watcher->buffer.empty()) {
        to_wake.push_back(watcher);
      }
      watcher->buffer.clear();
      watcher->buffer.emplace_back(WatchGap{index});
    }
  }
  for (const auto& watcher : to_wake) {
    watcher->wake();
  }
}

WatchHub::Subscription WatchHub::Subscribe(WatchFilter filter, std::uint64_t after_index,
                                           std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  if (watchers_.size() >= kWatchersMax) {
    return Subscription{};
  }
  auto watcher = std::make_shared<Watcher>();
  watcher->filter = std::move(filter);
  watcher->after = after_index;
  watcher->wake = std::move(wake);
  if (after_index != 0) {
    if (after_index < history_from_) {
      watcher->buffer.emplace_back(WatchGap{history_from_});
    }
    Watchers ignored;  // its owner has not asked for anything yet
    for (const WatchedEvent& item : history_) {
      if (item.index > after_index && Matches(watcher->filter, *item.event)) {
        Offer(watcher, item, ignored);
      }
    }
  }
  if (watcher->filter.exact) {
    exact_[Key(watcher->filter.name_space, watcher->filter.prefix)].push_back(watcher);
  } else {
    prefix_.push_back(watcher);
  }
  const Subscription subscription{next_id_++, after_index == 0 ? last_index_ : after_index};
  watchers_.emplace(subscription.id, std::move(watcher));
  return subscription;
}

void WatchHub::Unsubscribe(WatchId id) {
  const std::lock_guard lock(mutex_);
  const auto found = watchers_.find(id);
  if (found == watchers_.end()) {
    return;
  }
  const std::shared_ptr<Watcher> watcher = found->second;
  if (watcher->filter.exact) {
    const auto named = exact_.find(Key(watcher->filter.name_space, watcher->filter.prefix));
    std::erase(named->second, watcher);
    if (named->second.empty()) {
      exact_.erase(named);
    }
  } else {
    std::erase(prefix_, watcher);
  }
  watchers_.erase(found);
}

std::vector<WatchItem> WatchHub::Take(WatchId id, std::size_t max) {
  const std::lock_guard lock(mutex_);
  std::vector<WatchItem> items;
  const auto found = watchers_.find(id);
  if (found == watchers_.end()) {
    return items;
  }
  std::deque<WatchItem>& buffer = found->second->buffer;
  while (!buffer.empty() && items.size() < max) {
    items.push_back(std::move(buffer.front()));
    buffer.pop_front();
  }
  return items;
}

bool WatchHub::Matches(const WatchFilter& filter, const core::Event& event) {
  if (event.resource.empty() || event.name_space != filter.name_space) {
    return false;
  }
  return filter.exact ? event.resource == filter.prefix
                      : event.resource.compare(0, filter.prefix.size(), filter.prefix) == 0;
}

void WatchHub::Offer(const std::shared_ptr<Watcher>& watcher, const WatchedEvent& item,
                     Watchers& to_wake) {
  std::deque<WatchItem>& buffer = watcher->buffer;
  if (item.index <= watcher->after) {
    return;
  }
  if (buffer.empty()) {
    to_wake.push_back(watcher);
  } else if (buffer.size() >= kBufferMax) {
    // Everything that waits is given up for one marker: the watcher has to read the state anyway.
    buffer.clear();
    buffer.emplace_back(WatchGap{item.index});
    return;
  } else if (const auto* gap = std::get_if<WatchGap>(&buffer.back());
             gap != nullptr && item.index <= gap->index) {
    return;  // part of the state that the watcher reads because of the gap
  }
  buffer.emplace_back(item);
}

void WatchHub::OfferToAll(const WatchedEvent& item, Watchers& to_wake) {
  if (!exact_.empty()) {
    const auto named = exact_.find(Key(item.event->name_space, item.event->resource));
    if (named != exact_.end()) {
      for (const auto& watcher : named->second) {
        Offer(watcher, item, to_wake);
      }
    }
  }
  for (const auto& watcher : prefix_) {
    if (Matches(watcher->filter, *item.event)) {
      Offer(watcher, item, to_wake);
    }
  }
}

void WatchHub::Publish(std::uint64_t index, WallTime at, std::vector<core::Event>& events) {
  Watchers to_wake;
  {
    const std::lock_guard lock(mutex_);
    last_index_ = index;
    for (core::Event& event : events) {
      if (event.resource.empty()) {
        continue;
      }
      const WatchedEvent item{index, at, std::make_shared<const core::Event>(std::move(event))};
      history_.push_back(item);
      OfferToAll(item, to_wake);
    }
    while (history_.size() > kHistoryMax) {
      history_from_ = history_.front().index;
      history_.pop_front();
    }
  }
  for (const auto& watcher : to_wake) {
    watcher->wake();
  }
}

std::size_t WatchHub::watchers() const {
  const std::lock_guard lock(mutex_);
  return watchers_.size();
}

}  // namespace holdfast::engine
