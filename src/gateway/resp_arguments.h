// Reads the arguments of a call from left to right, and keeps the first error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "core/validate.h"
#include "holdfast/result.h"
#include "server/convert.h"

namespace holdfast::gateway {

bool EqualsIgnoringCase(std::string_view text, std::string_view capitals);

class ArgumentReader {
 public:
  // `arguments` must outlive the reader.
  explicit ArgumentReader(const std::vector<std::string_view>& arguments) : rest_(arguments) {}

  bool AtEnd() const { return next_ == rest_.size(); }
  // Whether the next argument is this word, in any case; moves behind it if so.
  bool Take(std::string_view capitals);
  // The next argument; an error that names `field` if there is none.
  std::string_view Text(const char* field);
  // 0 or more.
  std::uint64_t Number(const char* field);
  // Milliseconds, 0 .. 30 years: every limit lies below, and the check that knows it names it.
  Duration Time(const char* field);
  // 32 lower-case hexadecimal digits, not all zero.
  Id128 Id(const char* field);
  void Fail(Error error);
  // An argument that nobody took is an error.
  void ExpectEnd();

  // The command or query if nothing failed and core::Validate accepts it.
  template <typename Request>
  Result<server::EngineRequest> Finish(Request&& request) {
    ExpectEnd();
    if (status_.ok()) {
      status_ = core::Validate(request);
    }
    if (!status_.ok()) {
      return status_.error();
    }
    return server::EngineRequest(std::forward<Request>(request));
  }

  const Status& status() const { return status_; }

 private:
  const std::vector<std::string_view>& rest_;
  std::size_t next_ = 0;
  Status status_;
};

}  // namespace holdfast::gateway
