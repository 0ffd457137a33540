// A folder for one test or benchmark.

#ifndef REPRISE_TESTS_OWNED_FOLDER_H_
#define REPRISE_TESTS_OWNED_FOLDER_H_

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace reprise {

// Made for its owner alone, and gone with all that is in it. Its path has no
// symbolic links. Ends the program where there can be none. Thread-compatible.
class OwnedFolder {
 public:
  explicit OwnedFolder(const std::filesystem::path& parent =
                           std::filesystem::temp_directory_path()) {
    // mkdtemp puts other characters in place of the last six.
    std::string name = parent / ("reprise-" + std::string(6, 'X'));
    if (mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::exit(1);
    }
    path_ = std::filesystem::canonical(name).native();
  }
  ~OwnedFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  OwnedFolder(const OwnedFolder&) = delete;
  OwnedFolder& operator=(const OwnedFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace reprise

#endif  // REPRISE_TESTS_OWNED_FOLDER_H_
