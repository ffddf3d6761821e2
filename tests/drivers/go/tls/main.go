// Connects with the Go driver: tls CASES, a file of lines `name TAB uri`. Prints `name TAB ok TAB user` or
// `name TAB error TAB text`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// user connects, and returns who is logged in. A user also writes and reads a document.
func user(uri string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return "", err
	}
	defer client.Disconnect(ctx)
	var status struct {
		AuthInfo struct {
			AuthenticatedUsers []struct {
				User string `bson:"user"`
			} `bson:"authenticatedUsers"`
		} `bson:"authInfo"`
	}
	found := client.Database("admin").RunCommand(ctx, bson.D{{"connectionStatus", 1}})
	if err := found.Decode(&status); err != nil {
		return "", err
	}
	users := status.AuthInfo.AuthenticatedUsers
	if len(users) == 0 {
		return "", nil
	}
	things := client.Database("shop").Collection("go")
	if _, err := things.InsertOne(ctx, bson.D{{"text", strings.Repeat("x", 100000)}}); err != nil {
		return "", err
	}
	var back struct {
		Text string `bson:"text"`
	}
	if err := things.FindOne(ctx, bson.D{}).Decode(&back); err != nil || len(back.Text) != 100000 {
		return "", fmt.Errorf("another document: %v", err)
	}
	return users[0].User, nil
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		who, err := user(fields[1])
		if err != nil {
			fmt.Printf("%s\terror\t%s\n", fields[0], strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Printf("%s\tok\t%s\n", fields[0], who)
		}
	}
}
