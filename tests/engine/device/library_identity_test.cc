// What tells one build of a library from another.

#include "engine/device/library_identity.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

#include "engine/device/shared_library.h"
#include "tests/kernels/temporary_folder.h"

namespace reprise::device {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The beginning of a library with one segment of notes.
std::string Library(std::string_view notes) {
  ElfW(Ehdr) header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = 1;
  ElfW(Phdr) segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = notes.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  return file.append(notes);
}

std::string Note(uint32_t type, std::string_view text) {
  ElfW(Nhdr) note{};
  note.n_namesz = 4;
  note.n_descsz = static_cast<uint32_t>(text.size());
  note.n_type = type;
  std::string bytes(reinterpret_cast<const char*>(&note), sizeof note);
  bytes.append("GNU\0", 4).append(text);
  bytes.resize((bytes.size() + 3) & ~size_t{3});
  return bytes;
}

class LibraryIdentityTest : public ::testing::Test {
 protected:
  std::string IdentityOf(const std::string& text) {
    folder_.Write("library.so", text);
    const auto identity = LibraryIdentity(folder_ / "library.so");
    if (identity) return *identity;
    EXPECT_EQ(identity.error().code(), base::Code::kUnavailable);
    EXPECT_THAT(identity.error().message(), HasSubstr(folder_ / "library.so"));
    return "";
  }

  kernels::TemporaryFolder folder_;
};

TEST_F(LibraryIdentityTest, BuildIdIsReadFromTheNotes) {
  const std::string notes =
      Note(1, "other") + Note(NT_GNU_BUILD_ID, "\x01\xaf");
  EXPECT_EQ(IdentityOf(Library(notes)), "build 01af");
  EXPECT_EQ(IdentityOf(Library(notes) + "more"), "build 01af");
}

TEST_F(LibraryIdentityTest, WithoutABuildIdTheFileItselfTells) {
  const std::string first = IdentityOf(Library(Note(1, "other")));
  EXPECT_THAT(first, StartsWith(folder_ / "library.so"));
  EXPECT_EQ(*LibraryIdentity(folder_ / "library.so"), first);
  EXPECT_NE(IdentityOf(Library(Note(1, "others"))), first);
  const timespec times[2] = {{1, 0}, {1, 0}};
  const std::string before = *LibraryIdentity(folder_ / "library.so");
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / "library.so").c_str(), times, 0), 0);
  EXPECT_NE(*LibraryIdentity(folder_ / "library.so"), before);
}

TEST_F(LibraryIdentityTest, WhatIsNoLibraryIsRefused) {
  EXPECT_EQ(IdentityOf(""), "");
  EXPECT_EQ(IdentityOf(std::string(1000, 'x')), "");
  const std::string whole = Library(Note(NT_GNU_BUILD_ID, "12345678"));
  for (const size_t size : {whole.size() - 1, sizeof(ElfW(Ehdr)) + 3}) {
    EXPECT_EQ(IdentityOf(whole.substr(0, size)), "");
  }
  EXPECT_FALSE(LibraryIdentity(folder_ / "missing.so"));
  EXPECT_FALSE(LibraryIdentity(folder_.path()));
}

TEST_F(LibraryIdentityTest, NotesThatPromiseTooMuchHaveNoBuildId) {
  std::string notes = Note(NT_GNU_BUILD_ID, "1234");
  notes[4] = 100;  // the text's length
  EXPECT_THAT(IdentityOf(Library(notes)), StartsWith(folder_.path()));
}

TEST_F(LibraryIdentityTest, LoadedLibraryIsLocatedAndKnown) {
  const std::string path = LocateSharedLibrary("libc.so.6");
  const auto identity = LibraryIdentity(path);
  ASSERT_TRUE(identity) << identity.error().message();
  EXPECT_THAT(*identity, StartsWith("build "));
}

}  // namespace
}  // namespace reprise::device
