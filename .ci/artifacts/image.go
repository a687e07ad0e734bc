package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// owner is user and group of the service in the image: a number, so that Kubernetes sees that it is not root.
const owner = 65532

// imageConfig is how the image runs: as a user without rights, with what it keeps in a volume.
var imageConfig = v1.Config{
	User:         fmt.Sprintf("%d:%d", owner, owner),
	WorkingDir:   "/data",
	Volumes:      map[string]struct{}{"/data": {}},
	ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}},
	Entrypoint:   []string{"/worldevents"},
	StopSignal:   "SIGTERM",
	// Docker reads this, though the OCI does not know it. An instance that waits for its database is none to restart.
	Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/worldevents", "health", "--live"}, Interval: 10 * time.Second, Timeout: 10 * time.Second, Retries: 3},
	Env: []string{
		// Probes come from outside of the container. All addresses are meant, those of IPv6 among them.
		"ADMIN_ADDR=0.0.0.0:9090",
		// As in worldevents.service, which says what for. A container needs 530 MB then.
		"GOMEMLIMIT=420MiB", "GODEBUG=adaptivestackstart=0",
	},
}

// writeImage prints an archive with the layout of the OCI: one image for each program, below one name.
func writeImage(out io.Writer, programs []string) error {
	version, err := contractVersion()
	if err != nil {
		return err
	}
	platforms := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var made time.Time
	for _, program := range programs {
		var image mutate.IndexAddendum
		if image, made, err = programImage(program, version); err != nil {
			return err
		}
		platforms = mutate.AppendManifests(platforms, image)
	}
	named := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: platforms, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"org.opencontainers.image.ref.name": version,
		"io.containerd.image.name":          "docker.io/library/worldevents:" + version,
	}}})
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if _, err := layout.Write(folder, named); err != nil {
		return err
	}
	return pack(out, folder, made)
}

// programImage returns the image of a program, which says what it runs on and when its commit was made.
func programImage(program, version string) (image mutate.IndexAddendum, made time.Time, err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return image, made, err
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if made, err = time.Parse(time.RFC3339, settings["vcs.time"]); err != nil {
		return image, made, err
	}
	if settings["GOOS"] != "linux" {
		return image, made, fmt.Errorf("%s is not for Linux", program)
	}
	config := imageConfig
	// There is no licence and no public source to name.
	config.Labels = map[string]string{
		"org.opencontainers.image.title":       "worldevents",
		"org.opencontainers.image.description": "Scheduled events with RSVPs for social worlds, and a browser session that survives",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.revision":    settings["vcs.revision"],
		"org.opencontainers.image.created":     settings["vcs.time"],
	}
	bare, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		&v1.ConfigFile{OS: "linux", Architecture: settings["GOARCH"], Created: v1.Time{Time: made}, Config: config, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return image, made, err
	}
	files, err := rootFiles(program, made)
	if err != nil {
		return image, made, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return image, made, err
	}
	image.Descriptor = v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: settings["GOARCH"]}}
	image.Add, err = mutate.Append(bare, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "make release"}})
	return image, made, err
}

// rootFiles is all that is in the image, as an archive: the program, which has the authorities of certificates in it, and the
// settings that there are. A volume that is new takes the owner of its folder.
func rootFiles(program string, made time.Time) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	example, err := os.ReadFile(".env.example")
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, file := range []struct {
		header tar.Header
		text   []byte
	}{
		{tar.Header{Name: "worldevents", Mode: 0o555}, text},
		{tar.Header{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: owner, Gid: owner}, nil},
		{tar.Header{Name: "data/.env.example", Mode: 0o600, Uid: owner, Gid: owner}, example},
	} {
		file.header.ModTime = made
		if err := addFile(out, file.header, file.text); err != nil {
			return nil, err
		}
	}
	return archive.Bytes(), out.Close()
}

// addFile adds a file, of which header says all but the size.
func addFile(archive *tar.Writer, header tar.Header, text []byte) error {
	header.Size = int64(len(text))
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}

// pack prints the files of a folder as an archive, in the order of their names.
func pack(out io.Writer, folder string, made time.Time) error {
	archive := tar.NewWriter(out)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return addFile(archive, tar.Header{Name: name, Mode: 0o644, ModTime: made}, text)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}
