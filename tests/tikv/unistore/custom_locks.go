// Added to unistore's raftstore, see ../build.
package raftstore

import (
	"github.com/ngaut/unistore/lockstore"
	"github.com/ngaut/unistore/tikv/raftstore/raftlog"
)

// unistore has the locks of unfinished commits, and the values under them, in memory. A start reads them from the Raft
// log again, but it does not know the log's own encoding, in which they are written, and ignores the error. So a store
// that was killed lost all keys of acknowledged commits, but the first one, that had no second phase yet.
func restoreCustomLocks(data []byte, locks *lockstore.MemStore) {
	entry := raftlog.NewCustom(data)
	switch entry.Type() {
	case raftlog.TypePrewrite, raftlog.TypePessimisticLock:
		entry.IterateLock(func(key, lock []byte) { locks.Put(key, lock) })
	case raftlog.TypeCommit:
		entry.IterateCommit(func(key, _ []byte, _ uint64) { locks.Delete(key) })
	case raftlog.TypeRolback:
		entry.IterateRollback(func(key []byte, _ uint64, hasLock bool) {
			if hasLock {
				locks.Delete(key)
			}
		})
	case raftlog.TypePessimisticRollback:
		entry.IteratePessimisticRollback(func(key []byte) { locks.Delete(key) })
	}
}
