// Lets the library load where libstdc++ is older than the compiler's own.
//
// gcc 12 gave std::condition_variable::wait a new version of its symbol
// (GLIBCXX_3.4.30), for threads that are cancelled while they wait; none of
// ours is. The linker sends calls of it here (--wrap), and from here they go to
// the version that all have.

#include <condition_variable>
#include <mutex>

extern "C" {

__asm__(
    ".symver reprise_older_wait, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
void reprise_older_wait(std::condition_variable* condition,
                        std::unique_lock<std::mutex>* lock);

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  reprise_older_wait(condition, lock);
}

}  // extern "C"
