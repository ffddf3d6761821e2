// tikvd is a store for tests: TiKV's protocol over loopback, with unistore's Raft store behind it, coordinated by a
// real placement driver. It is not TiKV: no RocksDB, no limits of keys.
//
// The address given by -admin answers
//
//	GET  /calls        the number of requests so far, one line for each method
//	POST /split?key=   splits the region that has the key (hexadecimal)
//	POST /halve?key=   the same, at the key in the middle of its keys, of up to 4,096 that follow this one
//	POST /collect      learns the safe point of garbage collection now: compactions remove older versions
//	POST /mute?method= does what requests of these methods (with commas) ask, but answers with an error; none: no longer
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ngaut/unistore/config"
	"github.com/ngaut/unistore/pd"
	"github.com/ngaut/unistore/server"
	"github.com/ngaut/unistore/tikv"
	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	plog "github.com/pingcap/log"
	"github.com/pingcap/tidb/util/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// TiKV ignores Secondaries without UseAsyncCommit; unistore would copy them into every lock.
//
// unistore takes the timestamp of a commit in one phase before it writes the values, and lets others read in between, at
// later timestamps. So such commits wait for all reads, and reads for them.
type store struct {
	*tikv.Server
	reads *sync.RWMutex
}

func (s store) KvPrewrite(ctx context.Context, r *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	if !r.UseAsyncCommit {
		r.Secondaries = nil
	}
	if r.TryOnePc {
		s.reads.Lock()
		defer s.reads.Unlock()
	}
	return s.Server.KvPrewrite(ctx, r)
}

func (s store) KvGet(ctx context.Context, r *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	s.reads.RLock()
	defer s.reads.RUnlock()
	return s.Server.KvGet(ctx, r)
}

func (s store) KvBatchGet(ctx context.Context, r *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	s.reads.RLock()
	defer s.reads.RUnlock()
	return s.Server.KvBatchGet(ctx, r)
}

func (s store) KvScan(ctx context.Context, r *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	s.reads.RLock()
	defer s.reads.RUnlock()
	return s.Server.KvScan(ctx, r)
}

// Requests by method, and the methods that get no answers.
type calls struct {
	sync.Mutex
	by    map[string]uint64
	muted map[string]bool
}

func (c *calls) count(
	ctx context.Context, request interface{}, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (interface{}, error) {
	method := path.Base(info.FullMethod)
	c.Lock()
	c.by[method]++
	muted := c.muted[method]
	c.Unlock()
	answer, err := handler(ctx, request)
	if muted {
		return nil, status.Error(codes.Unavailable, "muted")
	}
	return answer, err
}

func (c *calls) mute(_ http.ResponseWriter, q *http.Request) {
	c.Lock()
	defer c.Unlock()
	c.muted = map[string]bool{}
	for _, method := range strings.Split(q.FormValue("method"), ",") {
		c.muted[method] = true
	}
}

func (c *calls) list(w http.ResponseWriter, _ *http.Request) {
	c.Lock()
	defer c.Unlock()
	var lines []string
	for method, count := range c.by {
		lines = append(lines, fmt.Sprintln(method, count))
	}
	sort.Strings(lines)
	fmt.Fprint(w, strings.Join(lines, ""))
}

const scannedMax = 4096

// The key in the middle of those that follow a key in its region.
func middle(client pd.Client, srv *tikv.Server, key []byte) ([]byte, error) {
	ctx := context.Background()
	r, err := client.GetRegion(ctx, codec.EncodeBytes(nil, key))
	if err != nil || r == nil {
		return nil, fmt.Errorf("region: %v", err)
	}
	physical, logical, err := client.GetTS(ctx)
	if err != nil {
		return nil, err
	}
	found, err := srv.KvScan(ctx, &kvrpcpb.ScanRequest{
		Context:  &kvrpcpb.Context{RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch, Peer: r.Leader},
		StartKey: key, Version: uint64(physical<<18 + logical), Limit: scannedMax, KeyOnly: true})
	if err != nil || found.RegionError != nil || len(found.Pairs) < 2 {
		return nil, fmt.Errorf("scan: %v %v", err, found.GetRegionError())
	}
	pair := found.Pairs[len(found.Pairs)/2]
	if pair.Error != nil && pair.Error.Locked != nil {
		return pair.Error.Locked.Key, nil
	}
	return pair.Key, nil
}

func split(client pd.Client, srv *tikv.Server, halves bool) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		key, err := hex.DecodeString(q.FormValue("key"))
		if err == nil && halves {
			key, err = middle(client, srv, key)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		start := codec.EncodeBytes(nil, key)
		r, err := client.GetRegion(context.Background(), start)
		if err != nil || r == nil {
			http.Error(w, fmt.Sprint("region: ", err), http.StatusInternalServerError)
			return
		}
		answer, err := srv.SplitRegion(context.Background(), &kvrpcpb.SplitRegionRequest{
			Context:   &kvrpcpb.Context{RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch, Peer: r.Leader},
			SplitKeys: [][]byte{key}})
		if err != nil || answer.RegionError != nil {
			http.Error(w, fmt.Sprint(err, answer), http.StatusInternalServerError)
			return
		}
		// The placement driver learns of it by the next heartbeat.
		for n := 0; n < 200; n++ {
			r, err = client.GetRegion(context.Background(), start)
			if err == nil && r != nil && bytes.Equal(r.Meta.StartKey, start) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		http.Error(w, "the placement driver does not learn of the split", http.StatusInternalServerError)
	}
}

func collect(client pd.Client, srv *tikv.Server) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		safePoint, err := client.GetGCSafePoint(context.Background())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		srv.Collect(safePoint)
	}
}

// With files, all connections are encrypted, and both sides show certificates.
func secured(ca, cert, key string) []grpc.ServerOption {
	if ca == "" {
		return nil
	}
	pem, err := os.ReadFile(ca)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	own, err := tls.LoadX509KeyPair(cert, key)
	check(err)
	conf := &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ClientCAs: roots,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"}}
	pd.Credentials = grpc.WithTransportCredentials(credentials.NewTLS(conf))
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(conf))}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	pdAddr := flag.String("pd", "127.0.0.1:2379", "placement drivers, with commas")
	addr := flag.String("addr", "127.0.0.1:20160", "address of the store")
	admin := flag.String("admin", "127.0.0.1:20161", "address for tests")
	dir := flag.String("dir", "", "data directory")
	ca := flag.String("ca", "", "authorities of certificates, in PEM, for encrypted connections")
	cert := flag.String("cert", "", "certificate")
	key := flag.String("key", "", "its private key")
	flag.Parse()
	conf := config.DefaultConf
	conf.Server.PDAddr, conf.Server.StoreAddr, conf.Server.Raft, conf.Server.LogLevel = *pdAddr, *addr, true, "warn"
	conf.Engine.DBPath = *dir
	// A batch may have 15 % of it: a document of 16 MB and more.
	conf.Engine.MaxMemTableSize = 192 << 20
	// A commit in one entry of the log may have 64 MiB.
	conf.Engine.VlogFileSize = 128 << 20
	conf.Engine.L1Size = 64 << 20
	conf.RaftStore.RaftBaseTickInterval = "100ms"
	conf.RaftStore.CustomRaftLog = true
	conf.RaftStore.RaftStoreMaxLeaderLease = "900ms"
	conf.RaftStore.PdHeartbeatTickInterval = "1s"
	logger, properties, err := plog.InitLogger(&plog.Config{Level: "warn"})
	check(err)
	plog.ReplaceGlobals(logger, properties)
	check(os.MkdirAll(*dir, 0o755))
	listener, err := net.Listen("tcp", *addr)
	check(err)
	options := secured(*ca, *cert, *key)
	client, err := pd.NewClient(strings.Split(*pdAddr, ","), "")
	check(err)
	srv, err := server.New(&conf, client)
	check(err)
	counted := &calls{by: map[string]uint64{}}
	alive := keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}
	gs := grpc.NewServer(append(options,
		grpc.KeepaliveEnforcementPolicy(alive), grpc.MaxRecvMsgSize(64<<20), grpc.UnaryInterceptor(counted.count))...)
	tikvpb.RegisterTikvServer(gs, store{srv, &sync.RWMutex{}})
	deadlock.RegisterDeadlockServer(gs, srv)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	go func() { <-stop; gs.Stop() }()
	http.HandleFunc("/calls", counted.list)
	http.HandleFunc("/mute", counted.mute)
	http.HandleFunc("/split", split(client, srv, false))
	http.HandleFunc("/halve", split(client, srv, true))
	http.HandleFunc("/collect", collect(client, srv))
	go func() { log.Print(http.ListenAndServe(*admin, nil)) }()
	log.Print("ready")
	if err := gs.Serve(listener); err != nil {
		log.Print(err)
	}
	srv.Stop()
}
