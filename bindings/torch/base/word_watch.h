// Whether objects of Python's have changed, by words of theirs.

#ifndef REPRISE_BINDINGS_TORCH_BASE_WORD_WATCH_H_
#define REPRISE_BINDINGS_TORCH_BASE_WORD_WATCH_H_

#include <cstdint>
#include <vector>

namespace reprise::bindings {

// Asked often, by whom has no time to look into the objects: a dictionary's
// version, what a cell of a closure or the defaults of a function refer to. 0.3
// to 1 ns a word. Who asks holds Python's lock, or lives with an answer that is
// a moment old.
class WordWatch {
 public:
  // Of these addresses; the words live as long as this.
  explicit WordWatch(const std::vector<int64_t>& addresses);

  // Since it was made one has. It stays so, whoever asks: another one is made
  // behind it (Anew).
  bool Changed() const;
  // Of the same words, from now on.
  WordWatch Anew() const;

  // From Python 3.12 on dictionaries have no versions: the interpreter calls a
  // watcher, which counts. The address of the watcher, as PyDict_AddWatcher
  // takes it, and that of the word in which it counts changes of a dictionary,
  // which is at that address. Few others share the word.
  static int64_t DictWatcher();
  static int64_t DictWord(int64_t dict);

 private:
  std::vector<const uint64_t*> words_;
  std::vector<uint64_t> seen_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_WORD_WATCH_H_
