// A folder for one benchmark.

#ifndef REPRISE_PERF_TEMPORARY_FOLDER_H_
#define REPRISE_PERF_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace reprise::perf {

// Made for its owner alone, and gone with all that is in it. Ends the program
// where there can be none.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / "reprise-XXXXXX") {
    if (mkdtemp(path_.data()) != nullptr) return;
    std::perror(path_.c_str());
    std::exit(1);
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace reprise::perf

#endif  // REPRISE_PERF_TEMPORARY_FOLDER_H_
