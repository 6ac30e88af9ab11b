// The versions are not those this module is built with, which are the program's,
// but the oldest that will do, and ones that are in the go.sum of containerd 1.7
// and 2.x: with newer ones the replace alone would not be enough to build them.
module github.com/containerd/go-cni

go 1.20

require (
	github.com/containernetworking/cni v1.1.2
	google.golang.org/grpc v1.33.2
	google.golang.org/protobuf v1.26.0
)

require (
	github.com/golang/protobuf v1.5.2 // indirect
	golang.org/x/net v0.0.0-20210428140749-89ef3d95e781 // indirect
	golang.org/x/sys v0.0.0-20210423082822-04245dca01da // indirect
	golang.org/x/text v0.3.6 // indirect
	google.golang.org/genproto v0.0.0-20200526211855-cb27e3aa2013 // indirect
)
