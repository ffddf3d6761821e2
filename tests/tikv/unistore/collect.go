package tikv

import (
	"github.com/ngaut/unistore/tikv/mvcc"
	"github.com/pingcap/badger"
)

// Filter tells what compactions keep of the newest version of a key that the safe point allows to see; older ones are
// dropped anyway. unistore's own filter knows TiDB's keys only: those that begin with n or u are its notes of
// transactions there, which it drops, so that values of other programs were lost.
//
// Deletions have no value, nor have notes of transactions.
func (f *GCCompactionFilter) Filter(_, value, userMeta []byte) badger.Decision {
	if len(value) > 0 || len(userMeta) != 16 {
		return badger.DecisionKeep
	}
	meta := mvcc.DBUserMeta(userMeta)
	if meta.StartTS() < f.safePoint && meta.CommitTS() < f.safePoint {
		return badger.DecisionMarkTombstone
	}
	return badger.DecisionKeep
}

// Collect makes the next compactions remove versions up to a safe point, of which the store otherwise learns within a
// minute.
func (svr *Server) Collect(safePoint uint64) {
	svr.mvccStore.UpdateSafePoint(safePoint)
}
