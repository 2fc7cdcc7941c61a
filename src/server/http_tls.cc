#include "server/http_tls.h"

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace holdfast::server {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Error BadPem(const char* option, const error_code& error) {
  return InvalidArgument(option, "a PEM file that OpenSSL takes",
                         std::string(option) + ": " + error.message());
}

}  // namespace

void TlsContextDeleter::operator()(ssl::context* context) const {
  delete context;
}

Result<TlsContext> MakeTlsContext(const std::string& certificate, const std::string& key,
                                  const std::string& client_ca) {
  TlsContext context(new ssl::context(ssl::context::tls_server));
  error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                           ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1,
                       error);
  context->use_certificate_chain(boost::asio::buffer(certificate), error);
  if (error) {
    return BadPem("tls.cert", error);
  }
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error) {
    return BadPem("tls.key", error);
  }
  if (!client_ca.empty()) {
    context->add_certificate_authority(boost::asio::buffer(client_ca), error);
    if (error) {
      return BadPem("tls.client_ca", error);
    }
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
    // Sessions of TLS are not resumed, so that each handshake verifies.
    SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
  }
  return context;
}

Credentials CertificateOf(const ssl_st* connection) {
  Credentials credentials;
  X509* certificate = SSL_get1_peer_certificate(connection);
  if (certificate == nullptr) {
    return credentials;
  }
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) {
    const ASN1_STRING* name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    credentials.certificate_name.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
                                        static_cast<std::size_t>(ASN1_STRING_length(name)));
  }
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_URI) {
      const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
      credentials.certificate_uris.emplace_back(
          reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
          static_cast<std::size_t>(ASN1_STRING_length(uri)));
    }
  }
  GENERAL_NAMES_free(names);
  X509_free(certificate);
  return credentials;
}

}  // namespace holdfast::server
