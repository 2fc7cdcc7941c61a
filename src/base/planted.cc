#include "base/planted.h"

namespace holdfast {

#ifdef HOLDFAST_PLANTED_BUGS
Bug& PlantedBugInThread() {
  static thread_local Bug bug = Bug::kNone;
  return bug;
}
#endif

}  // namespace holdfast
