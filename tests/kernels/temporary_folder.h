// A folder for one test.

#ifndef REPRISE_TESTS_KERNELS_TEMPORARY_FOLDER_H_
#define REPRISE_TESTS_KERNELS_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/owned_folder.h"

namespace reprise::kernels {

// With files of the test's. Thread-compatible.
class TemporaryFolder : public OwnedFolder {
 public:
  TemporaryFolder() : OwnedFolder(::testing::TempDir()) {}

  std::string operator/(const std::string& name) const {
    return path() + "/" + name;
  }

  // Makes the folders that `name` goes through.
  void Write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = *this / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    EXPECT_TRUE(file) << path;
  }

  std::string Read(const std::string& name) const {
    std::ifstream file(*this / name, std::ios::binary);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

}  // namespace reprise::kernels

#endif  // REPRISE_TESTS_KERNELS_TEMPORARY_FOLDER_H_
