// proxy passes connections on, for tests that disturb them: proxy CONTROL LISTEN=TARGET...
//
// The address CONTROL answers
//
//	POST /delay?ms=  what arrives from now on is passed on so much later, in both directions
//	POST /cut        nothing is passed on any more; connections stay open, and new ones are accepted
//	POST /join       what was held back is passed on
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Of parts, of 64 KiB at most, that a direction of a connection holds back.
const heldMax = 256

var delay atomic.Int64
var gate sync.RWMutex // held for writing while the network is cut
var isCut bool

type part struct {
	due  time.Time
	data []byte
}

func pump(from, to net.Conn) {
	parts := make(chan part, heldMax)
	go func() {
		defer close(parts)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				parts <- part{time.Now().Add(time.Duration(delay.Load())), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for p := range parts {
		time.Sleep(time.Until(p.due))
		gate.RLock()
		gate.RUnlock()
		if !failed {
			_, err := to.Write(p.data)
			failed = err != nil
		}
		if failed {
			from.Close()
		}
	}
	to.Close()
	from.Close()
}

func serve(listen, target string) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				return
			}
			go pump(client, server)
			pump(server, client)
		}()
	}
}

func main() {
	for _, pair := range os.Args[2:] {
		listen, target, _ := strings.Cut(pair, "=")
		go serve(listen, target)
	}
	var control sync.Mutex
	http.HandleFunc("/delay", func(_ http.ResponseWriter, q *http.Request) {
		ms, _ := strconv.Atoi(q.FormValue("ms"))
		delay.Store(int64(time.Duration(ms) * time.Millisecond))
	})
	http.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) {
		control.Lock()
		defer control.Unlock()
		if !isCut {
			gate.Lock()
			isCut = true
		}
	})
	http.HandleFunc("/join", func(http.ResponseWriter, *http.Request) {
		control.Lock()
		defer control.Unlock()
		if isCut {
			gate.Unlock()
			isCut = false
		}
	})
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") })
	if err := http.ListenAndServe(os.Args[1], nil); err != nil && err != io.EOF {
		log.Fatal(err)
	}
}
