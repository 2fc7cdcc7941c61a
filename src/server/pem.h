// Files with certificates and keys, as the configuration names them.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "holdfast/result.h"

namespace holdfast::server {

// Leaves `text` alone if `path` is empty. kInvalidArgument names the option.
inline Status ReadPem(const char* option, const std::string& path, std::string& text) {
  if (path.empty()) {
    return {};
  }
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (text.find("-----BEGIN ") == std::string::npos) {
    return InvalidArgument(option, "a readable PEM file",
                           std::string(option) + ": " + path + " is not a PEM file");
  }
  return {};
}

}  // namespace holdfast::server
