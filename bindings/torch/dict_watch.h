// Whether dictionaries of Python's have changed.

#ifndef REPRISE_BINDINGS_TORCH_DICT_WATCH_H_
#define REPRISE_BINDINGS_TORCH_DICT_WATCH_H_

#include <cstdint>
#include <vector>

namespace reprise::bindings {

// Asked often, by whom has no time to look into them. Before Python 3.12 a
// dictionary's version is read where the interpreter keeps it (0.3 ns each);
// since then the interpreter calls a watcher, which counts. Who asks holds
// Python's lock, or lives with an answer that is a moment old.
class DictWatch {
 public:
  // By versions: `dicts` are their addresses, and they live as long as this.
  explicit DictWatch(const std::vector<int64_t>& dicts);
  // By the watcher's count: all that are watched are taken for one.
  DictWatch();

  // Since it was made, or Changed was last called, something may have.
  bool Changed();

  // The watcher, as PyDict_AddWatcher takes it; its address.
  static int64_t Watcher();

 private:
  std::vector<const uint64_t*> versions_;
  std::vector<uint64_t> seen_;
  uint64_t count_ = 0;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_DICT_WATCH_H_
