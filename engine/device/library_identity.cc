#include "engine/device/library_identity.h"

#include <link.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::device {
namespace {

// More than any program header or note of a library takes.
constexpr size_t kMostBytes = size_t{1} << 20;

// False where the file has no such bytes.
bool ReadAt(std::ifstream& file, uint64_t offset, void* to, size_t bytes) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  return file.good();
}

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

// Of the notes of one segment; empty if there is none.
std::string BuildIdIn(std::string_view notes) {
  const auto padded = [](size_t size) { return (size + 3) & ~size_t{3}; };
  ElfW(Nhdr) note;
  for (size_t at = 0; at + sizeof note <= notes.size();) {
    std::memcpy(&note, notes.data() + at, sizeof note);
    const size_t text = at + sizeof note + padded(note.n_namesz);
    const size_t next = text + padded(note.n_descsz);
    if (next > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID) {
      return ToHex(notes.substr(text, note.n_descsz));
    }
    at = next;
  }
  return {};
}

}  // namespace

base::Result<std::string> LibraryIdentity(const std::string& path) {
  const auto refuse = [&path](const char* why) {
    return base::Fail(base::Code::kUnavailable,
                      "'" + path + "' is no library: " + why);
  };
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).native();
  struct stat info;
  if (error || stat(real.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return refuse("there is no such file");
  }
  std::ifstream file(real, std::ios::binary);
  ElfW(Ehdr) header;
  if (!ReadAt(file, 0, &header, sizeof header))
    return refuse("it is too short");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(ElfW(Phdr))) {
    return refuse("it is no 64-bit ELF file");
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!ReadAt(file, header.e_phoff, segments.data(),
              segments.size() * sizeof(ElfW(Phdr)))) {
    return refuse("it is cut short");
  }
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!ReadAt(file, segment.p_offset, notes.data(), notes.size())) {
      return refuse("it is cut short");
    }
    std::string id = BuildIdIn(notes);
    if (!id.empty()) return "build " + id;
  }
  return real + " of " + std::to_string(info.st_size) + " bytes, changed at " +
         std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

}  // namespace reprise::device
