// TLS for the HTTP listener, from the same PEM texts as that of gRPC.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"
#include "server/auth.h"

namespace boost::asio::ssl {
class context;
}
struct ssl_st;

namespace holdfast::server {

struct TlsContextDeleter {
  void operator()(boost::asio::ssl::context* context) const;
};
using TlsContext = std::unique_ptr<boost::asio::ssl::context, TlsContextDeleter>;

// With a client CA, clients must have a certificate that it signed. kInvalidArgument names the
// option whose text OpenSSL does not take.
Result<TlsContext> MakeTlsContext(const std::string& certificate, const std::string& key,
                                  const std::string& client_ca);

// The names in the client's certificate, which was verified; nothing without one.
Credentials CertificateOf(const ssl_st* connection);

}  // namespace holdfast::server
