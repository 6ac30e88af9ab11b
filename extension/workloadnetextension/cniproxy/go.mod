module github.com/containerd/go-cni

go 1.22.0
