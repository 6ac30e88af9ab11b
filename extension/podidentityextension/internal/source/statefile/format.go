// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package statefile

import "path/filepath"

const (
	formatAzureVNet  = "azure-vnet"
	formatAzureCNS   = "azure-cns"
	formatCNIResults = "cni-results"
	formatList       = "list"
	formatHostLocal  = "host-local"
	formatAWSIPAMD   = "aws-ipamd"
	formatCilium     = "cilium"
	formatNerdctl    = "nerdctl"
)

// formatNames are the formats as configuration and documentation list them.
var formatNames = []string{
	formatAzureVNet, formatAzureCNS, formatCNIResults, formatList,
	formatHostLocal, formatAWSIPAMD, formatCilium, formatNerdctl,
}

const (
	// maxFile bounds a file that holds all pods: 8 MiB is about 4,000 endpoints of
	// Azure CNI, the most verbose of the formats.
	maxFile = 8 << 20
	// maxLeaf bounds a file that holds one pod. Cilium's holds the endpoint's DNS
	// history as well.
	maxLeaf = 4 << 20
	// maxLeaves bounds the files of a directory: the addresses of a /16.
	maxLeaves = 1 << 16
)

// format is how one kind of state is read.
type format struct {
	name string
	// parse reads one file; path is the file's, part of which some formats need.
	// It is pure.
	parse func(path string, b []byte) (answer, error)
	// leaves finds the files of a format that is a directory; nil for the others.
	leaves func(t *tree, root string) error
	// endsWithNetNS says that an entry whose network namespace has been unmounted
	// is a leftover: the runtime mounts it before the entry is written and
	// unmounts it after the entry is removed, unless the removal failed.
	endsWithNetNS bool
}

func (f *format) limit() int64 {
	if f.leaves != nil {
		return maxLeaf
	}
	return maxFile
}

var formats = map[string]*format{
	formatAzureVNet:  {name: formatAzureVNet, parse: ignorePath(parseAzureVNet)},
	formatAzureCNS:   {name: formatAzureCNS, parse: ignorePath(parseAzureCNS)},
	formatAWSIPAMD:   {name: formatAWSIPAMD, parse: ignorePath(parseAWSIPAMD)},
	formatList:       {name: formatList, parse: ignorePath(parseList)},
	formatCNIResults: {name: formatCNIResults, parse: ignorePath(parseCNIResult), leaves: (*tree).cniResults, endsWithNetNS: true},
	formatHostLocal:  {name: formatHostLocal, parse: parseHostLocal, leaves: (*tree).hostLocal},
	formatCilium:     {name: formatCilium, parse: ignorePath(parseCilium), leaves: (*tree).cilium},
	formatNerdctl:    {name: formatNerdctl, parse: parseNerdctl, leaves: (*tree).nerdctl},
}

func ignorePath(parse func([]byte) (answer, error)) func(string, []byte) (answer, error) {
	return func(_ string, b []byte) (answer, error) { return parse(b) }
}

// usualPaths are the places where a format's writer keeps its state on an
// operating system, in the order in which they are looked for.
func usualPaths(goos, format string) []string {
	if goos == "windows" {
		switch format {
		case formatAzureVNet:
			// The first is platform.CNIStateFilePath of Azure CNI; older builds write
			// to the working directory of whoever calls the plugin: its own folder,
			// or system32 under containerd's service.
			return []string{`C:\k\azure-vnet.json`, `C:\k\azurecni\bin\azure-vnet.json`, `C:\Windows\System32\azure-vnet.json`}
		case formatAzureCNS:
			return []string{`C:\k\azurecns\azure-endpoints.json`}
		case formatCNIResults: // libcni's default is not changed for Windows
			return []string{`C:\var\lib\cni\results`}
		case formatHostLocal:
			return []string{`C:\var\lib\cni\networks`}
		case formatNerdctl:
			return []string{`C:\ProgramData\nerdctl`}
		}
		return nil
	}
	switch format {
	case formatAzureVNet:
		return []string{"/var/run/azure-vnet.json"}
	case formatAzureCNS:
		return []string{"/var/run/azure-cns/azure-endpoints.json"}
	case formatCNIResults:
		return []string{"/var/lib/cni/results"}
	case formatHostLocal:
		return []string{"/var/lib/cni/networks"}
	case formatAWSIPAMD:
		return []string{"/var/run/aws-node/ipam.json"}
	case formatCilium:
		return []string{"/var/run/cilium/state"}
	case formatNerdctl:
		return []string{"/var/lib/nerdctl"}
	}
	return nil
}

// usualFormat is the format whose usual place is path, or "".
func usualFormat(goos, path string) string {
	for _, name := range formatNames {
		for _, p := range usualPaths(goos, name) {
			if filepath.Clean(p) == path {
				return name
			}
		}
	}
	return ""
}
