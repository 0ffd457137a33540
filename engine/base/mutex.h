// A mutex that clang's thread safety analysis understands (libstdc++'s carries
// no capability). Elsewhere the annotations vanish.

#ifndef REPRISE_ENGINE_BASE_MUTEX_H_
#define REPRISE_ENGINE_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define REPRISE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define REPRISE_THREAD_ANNOTATION(x)
#endif

#define REPRISE_CAPABILITY(name) REPRISE_THREAD_ANNOTATION(capability(name))
#define REPRISE_SCOPED_CAPABILITY REPRISE_THREAD_ANNOTATION(scoped_lockable)
// On a member: read and written only with the mutex held.
#define REPRISE_GUARDED_BY(mutex) REPRISE_THREAD_ANNOTATION(guarded_by(mutex))
// On a function: the caller holds the mutex (a ...Locked() helper) ...
#define REPRISE_REQUIRES(...) \
  REPRISE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
// ... or must not hold it.
#define REPRISE_EXCLUDES(...) \
  REPRISE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define REPRISE_ACQUIRE(...) \
  REPRISE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define REPRISE_RELEASE(...) \
  REPRISE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define REPRISE_TRY_ACQUIRE(...) \
  REPRISE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define REPRISE_NO_THREAD_SAFETY_ANALYSIS \
  REPRISE_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace reprise::base {

// Not recursive. Thread-safe. Prefer MutexLock to Lock and Unlock.
class REPRISE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() REPRISE_ACQUIRE() { mutex_.lock(); }
  void Unlock() REPRISE_RELEASE() { mutex_.unlock(); }
  bool TryLock() REPRISE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex, which must outlive it, from construction to destruction.
class REPRISE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) REPRISE_ACQUIRE(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() REPRISE_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits for a change of what one mutex guards. A wait gives up the mutex and
// has it again when it returns; it may return for no reason, so callers loop
// over their condition (a predicate would hide it from the analysis).
// Thread-safe.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex& mutex) REPRISE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }

  // False once `deadline` has passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      REPRISE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time =
        changed_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace reprise::base

#endif  // REPRISE_ENGINE_BASE_MUTEX_H_
