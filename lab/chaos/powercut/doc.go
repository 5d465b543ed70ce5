// Package powercut is a file system in memory that forgets what was not synced, in the manner of LazyFS: a service stores
// its data on a Disk, is killed, and continues with what survives a power failure.
//
// A Disk behaves like a journaling file system (ext4, XFS, btrfs) in its least helpful form:
//
//   - The content of a file is durable once the file was synced (fsync, or a write to a file opened with O_SYNC). Of
//     writes since then, a power cut keeps none, the first few, or any of them; the last one may be torn.
//   - Names (create, rename, remove) become durable in their order. A sync of any file or directory makes all names so
//     far durable; of those since then, a power cut keeps the first few or none. A rename does not sync its file.
//
// A Disk can also be full, read-only, slow or fail, and damage files at rest. It holds every file twice in memory, so it
// is for data of some hundred megabytes. It has no hard links, and a symbolic link is never followed by it.
package powercut
