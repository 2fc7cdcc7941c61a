#include "server/http_routes.h"

#include <algorithm>
#include <utility>

#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "holdfast/v1/sessions.pb.h"
#include "server/complete.h"

namespace holdfast::server {
namespace {

template <typename Request, typename Response>
class JsonVerb final : public HttpVerb {
 public:
  explicit JsonVerb(const Verb<Request, Response>& verb) : verb_(verb) {}

  Result<EngineRequest> Read(const std::string& json, const std::string& principal) override {
    const Status parsed = JsonToMessage(json, request_);
    if (!parsed.ok()) {
      return parsed.error();
    }
    return verb_.read(request_, principal);
  }

  bool MayWait() const override {
    if constexpr (kMayWait<Request>) {
      return server::MayWait(request_);
    } else {
      return false;
    }
  }

  Result<std::string> Write(Loop& loop, const Caller& caller, engine::Reply& reply) override {
    Response response;
    const Status status = verb_.write(request_, reply, response);
    if (!status.ok()) {
      return status.error();
    }
    Complete(loop, caller, request_, response);
    return MessageToJson(response);
  }

 private:
  const Verb<Request, Response>& verb_;
  Request request_;
};

enum Methods : std::uint8_t { kPost = 1, kGetOrPost = 3 };

template <typename Request, typename Response>
HttpRoute RouteOf(const char* path, Methods methods, const Verb<Request, Response>& verb) {
  HttpRoute route;
  route.path = path;
  route.get = methods == kGetOrPost;
  route.post = true;
  route.verb = verb.name;
  route.access = verb.access;
  route.make = [&verb] { return std::make_unique<JsonVerb<Request, Response>>(verb); };
  return route;
}

HttpRoute FeedRoute(const char* path, const char* verb,
                    std::unique_ptr<HttpFeed> (*make)(Loop&, std::function<void()>)) {
  HttpRoute route;
  route.path = path;
  route.get = true;
  route.kind = HttpRoute::Kind::kFeed;
  route.verb = verb;
  route.make_feed = make;
  return route;
}

HttpRoute ServiceRoute(const char* path, HttpRoute::Kind kind) {
  HttpRoute route;
  route.path = path;
  route.get = true;
  route.kind = kind;
  route.verb = path;
  return route;
}

std::vector<HttpRoute> MakeRoutes() {
  std::vector<HttpRoute> routes;
  routes.push_back(RouteOf("/v1/locks/acquire", kPost, kAcquire));
  routes.push_back(RouteOf("/v1/locks/renew", kPost, kRenew));
  routes.push_back(RouteOf("/v1/locks/release", kPost, kRelease));
  routes.push_back(RouteOf("/v1/locks/cancel", kPost, kCancel));
  routes.push_back(RouteOf("/v1/locks/describe", kGetOrPost, kDescribe));
  routes.push_back(RouteOf("/v1/locks/list", kGetOrPost, kList));
  routes.push_back(RouteOf("/v1/locks/check-token", kGetOrPost, kCheckToken));
  routes.push_back(RouteOf("/v1/locks/break", kPost, kBreak));
  routes.push_back(FeedRoute("/v1/locks/watch", "Watch", MakeWatchFeed));
  routes.push_back(RouteOf("/v1/sessions/open", kPost, kOpenSession));
  routes.push_back(RouteOf("/v1/sessions/keep-alive", kPost, kKeepAlive));
  routes.push_back(RouteOf("/v1/sessions/close", kPost, kCloseSession));
  // A session id is a capability: it does not belong into a URL, which others log.
  routes.push_back(RouteOf("/v1/sessions/describe", kPost, kDescribeSession));
  routes.push_back(RouteOf("/v1/elections/campaign", kPost, kCampaign));
  routes.push_back(RouteOf("/v1/elections/proclaim", kPost, kProclaim));
  routes.push_back(RouteOf("/v1/elections/resign", kPost, kResign));
  routes.push_back(RouteOf("/v1/elections/leader", kGetOrPost, kLeader));
  routes.push_back(FeedRoute("/v1/elections/observe", "Observe", MakeObserveFeed));
  routes.push_back(RouteOf("/v1/namespaces/create", kPost, kCreateNamespace));
  routes.push_back(RouteOf("/v1/namespaces/set", kPost, kSetNamespace));
  routes.push_back(RouteOf("/v1/namespaces/get", kGetOrPost, kGetNamespace));
  routes.push_back(RouteOf("/v1/namespaces/list", kGetOrPost, kListNamespaces));
  routes.push_back(RouteOf("/v1/namespaces/delete", kPost, kDeleteNamespace));
  routes.push_back(RouteOf("/v1/feature-level/set", kPost, kSetFeatureLevel));
  routes.push_back(RouteOf("/v1/status", kGetOrPost, kGetStatus));
  routes.push_back(RouteOf("/v1/step-down", kPost, kStepDown));
  routes.push_back(RouteOf("/v1/hot-resources", kGetOrPost, kListHotResources));
  routes.push_back(ServiceRoute("/metrics", HttpRoute::Kind::kMetrics));
  routes.push_back(ServiceRoute("/healthz", HttpRoute::Kind::kHealth));
  routes.push_back(ServiceRoute("/readyz", HttpRoute::Kind::kReady));
  return routes;
}

}  // namespace

const std::vector<HttpRoute>& HttpRoutes() {
  static const std::vector<HttpRoute> routes = MakeRoutes();
  return routes;
}

const HttpRoute* FindHttpRoute(std::string_view path) {
  const auto& routes = HttpRoutes();
  const auto found = std::find_if(routes.begin(), routes.end(),
                                  [&](const HttpRoute& route) { return route.path == path; });
  return found == routes.end() ? nullptr : &*found;
}

}  // namespace holdfast::server
