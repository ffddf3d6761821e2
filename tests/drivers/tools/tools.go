//go:build tools

// MongoDB's own tools, built from their module; the versions are in go.mod.
package tools

import (
	_ "github.com/mongodb/mongo-tools/bsondump/main"
	_ "github.com/mongodb/mongo-tools/mongodump/main"
	_ "github.com/mongodb/mongo-tools/mongoexport/main"
	_ "github.com/mongodb/mongo-tools/mongofiles/main"
	_ "github.com/mongodb/mongo-tools/mongoimport/main"
	_ "github.com/mongodb/mongo-tools/mongorestore/main"
	_ "github.com/mongodb/mongo-tools/mongostat/main"
	_ "github.com/mongodb/mongo-tools/mongotop/main"
)
