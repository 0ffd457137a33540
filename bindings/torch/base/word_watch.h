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
  // Of the words at these addresses, which live as long as this; and of those
  // in which changes of dictionaries are counted (DictWord).
  explicit WordWatch(const std::vector<int64_t>& words,
                     const std::vector<int64_t>& dict_words = {});

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
  using Pointers = std::vector<const uint64_t*>;

  // Words, and what they were when this was made.
  struct Words {
    explicit Words(Pointers of);
    bool Changed() const;

    Pointers words;
    std::vector<uint64_t> seen;
  };

  WordWatch(Words words, const Pointers& dict_words);

  Words words_;
  // How many changes of any dictionary there had been before these were last
  // found to be the same. Accessed by atomic builtins.
  mutable uint64_t dict_changes_;
  Words of_dicts_;
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_WORD_WATCH_H_
