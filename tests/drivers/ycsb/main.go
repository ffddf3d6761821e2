// go-ycsb with its MongoDB binding only: main.go load|run -p name=value ...
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/mongodb"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

func main() {
	p := properties.NewProperties()
	for _, pair := range os.Args[2:] {
		name, value, _ := strings.Cut(pair, "=")
		p.Set(name, value)
	}
	load := os.Args[1] == "load"
	p.Set(prop.DoTransactions, strconv.FormatBool(!load))
	p.Set(prop.Command, os.Args[1])
	measurement.InitMeasure(p)
	workload, err := ycsb.GetWorkloadCreator("core").Create(p)
	if err != nil {
		fmt.Println("workload:", err)
		os.Exit(1)
	}
	db, err := ycsb.GetDBCreator("mongodb").Create(p)
	if err != nil {
		fmt.Println("mongodb:", err)
		os.Exit(1)
	}
	c := client.NewClient(p, workload, client.DbWrapper{DB: db})
	c.Run(context.Background())
	measurement.Output()
	workload.Close()
	db.Close()
}
