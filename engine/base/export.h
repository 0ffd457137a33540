// What libreprise.so shows.

#ifndef REPRISE_ENGINE_BASE_EXPORT_H_
#define REPRISE_ENGINE_BASE_EXPORT_H_

#define REPRISE_EXPORT __attribute__((visibility("default")))

#endif  // REPRISE_ENGINE_BASE_EXPORT_H_
