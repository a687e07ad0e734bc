package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM prints a bill of materials in CycloneDX's JSON, without the serial number and the time that would make each one
// differ.
func writeSBOM(out io.Writer, of func(file string) (*cdx.BOM, error), file string) error {
	bom, err := of(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	bom.Metadata.Component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// newBOM returns the bill of component, which consists of parts. It depends on what edges say of its reference.
func newBOM(component cdx.Component, parts []cdx.Component, edges map[string][]string) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &component}
	bom.Components = &parts
	dependencies := make([]cdx.Dependency, 0, len(parts)+1)
	for _, part := range append([]cdx.Component{component}, parts...) {
		on := edges[part.BOMRef]
		dependencies = append(dependencies, cdx.Dependency{Ref: part.BOMRef, Dependencies: &on})
	}
	bom.Dependencies = &dependencies
	return bom
}

// part returns a component that is known by its package URL.
func part(kind cdx.ComponentType, name, version, purl string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl, Scope: cdx.ScopeRequired}
}

// programSBOM lists what the linker has put into a program: the modules with their checksums, Go's own library, and Swagger UI.
func programSBOM(file string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	version, err := contractVersion()
	if err != nil {
		return nil, err
	}
	main := part(cdx.ComponentTypeApplication, info.Main.Path, version, "pkg:golang/"+info.Main.Path+"@"+version)
	properties := []cdx.Property{}
	env := os.Environ()
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.time":
			properties = append(properties, cdx.Property{Name: "worldevents:" + s.Key, Value: s.Value})
			env = append(env, s.Key+"="+s.Value) // Nobody reads those of version control.
		}
	}
	main.Properties = &properties

	library := strings.TrimPrefix(info.GoVersion, "go")
	std := part(cdx.ComponentTypeLibrary, "std", library, "pkg:golang/std@"+library)
	refs := map[string]string{info.Main.Path: main.BOMRef, "": std.BOMRef}
	parts := []cdx.Component{std}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced by %s", m.Path, m.Replace.Path)
		}
		module := part(cdx.ComponentTypeLibrary, m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
		module.Properties = &[]cdx.Property{{Name: "worldevents:go.sum", Value: m.Sum}}
		parts = append(parts, module)
		refs[m.Path] = module.BOMRef
	}
	edges, err := moduleEdges(refs, env)
	if err != nil {
		return nil, err
	}
	pages, err := packages("server/internal/pages/swagger/package-lock.json", func(name string) bool { return name == "swagger-ui-dist" })
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		edges[main.BOMRef] = append(edges[main.BOMRef], page.BOMRef)
	}
	return newBOM(main, append(parts, pages...), edges), nil
}

// moduleEdges says which module imports which, by their references: what is imported for another system does not count.
func moduleEdges(refs map[string]string, env []string) (map[string][]string, error) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Module,Imports", ".")
	list.Env, list.Stderr = env, os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, err
	}
	type goPackage struct {
		ImportPath string
		Module     struct{ Path string }
		Imports    []string
	}
	module := make(map[string]string) // the module of each package; that of Go's library is ""
	edges := make(map[string][]string)
	for in := json.NewDecoder(bytes.NewReader(text)); ; { // A package comes after those that it imports.
		var p goPackage
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		from, known := refs[p.Module.Path]
		if !known {
			return nil, fmt.Errorf("the program was not built of %s", p.Module.Path)
		}
		module[p.ImportPath] = from
		for _, path := range p.Imports {
			if on := module[path]; on != "" && on != from && !slices.Contains(edges[from], on) {
				edges[from] = append(edges[from], on)
			}
		}
	}
	for _, on := range edges {
		slices.Sort(on)
	}
	return edges, nil
}

// clientSBOM lists what the client's package brings along when it is installed: nothing, as long as it has only peers.
func clientSBOM(string) (*cdx.BOM, error) {
	version, err := contractVersion()
	if err != nil {
		return nil, err
	}
	const name = "worldevents-client"
	client := part(cdx.ComponentTypeLibrary, name, version, "pkg:npm/"+name+"@"+version)
	parts, err := packages("gen/typescript/package-lock.json", func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	edges := make(map[string][]string)
	for _, p := range parts {
		edges[client.BOMRef] = append(edges[client.BOMRef], p.BOMRef)
	}
	return newBOM(client, parts, edges), nil
}

// packages returns the npm packages of a package-lock.json that are wanted, without those that only development needs and
// those that whoever installs brings along.
func packages(lock string, wanted func(name string) bool) ([]cdx.Component, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var locked struct {
		Packages map[string]struct {
			Version, Integrity string
			Dev, Peer          bool
		}
	}
	if err := json.Unmarshal(text, &locked); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	found := []cdx.Component{}
	for _, path := range slices.Sorted(maps.Keys(locked.Packages)) {
		p := locked.Packages[path]
		if path == "" || p.Dev || p.Peer { // "" is the package that has the lock.
			continue
		}
		name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
		if !wanted(name) {
			continue
		}
		sum, isSHA512 := strings.CutPrefix(p.Integrity, "sha512-")
		hash, err := base64.StdEncoding.DecodeString(sum)
		if err != nil || !isSHA512 {
			return nil, fmt.Errorf("%s: %s has no SHA-512", lock, name)
		}
		c := part(cdx.ComponentTypeLibrary, name, p.Version, "pkg:npm/"+strings.Replace(name, "@", "%40", 1)+"@"+p.Version)
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(hash)}}
		found = append(found, c)
	}
	return found, nil
}

// contractVersion is the version of the contract, the program and the client.
func contractVersion() (string, error) {
	text, err := os.ReadFile("gen/typescript/package.json")
	if err != nil {
		return "", err
	}
	var client struct{ Version string }
	return client.Version, json.Unmarshal(text, &client)
}
