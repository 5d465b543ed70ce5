package registry

import (
	"context"
	"errors"
	"strings"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"
)

// abandonedAge is when the files of a version without a record are removed. It exceeds
// the time between the upload of the first file and the registration of a version.
const abandonedAge = 24 * time.Hour

// removeAbandoned removes the files of versions whose record does not name them, if the last
// of them has the given age: those of a training run that ended before it registered its
// candidate, and whose successor trained another one. It keeps those of version uploading.
func (r *Registry) removeAbandoned(ctx context.Context, uploading string, age time.Duration) error {
	names, err := r.objects.names(ctx, "")
	if err != nil {
		return err
	}
	files := map[string][]string{} // by the token of the version
	for _, name := range names {
		if version, _, ok := strings.Cut(name, "/"); ok && version != token(uploading) {
			files[version] = append(files[version], name)
		}
	}
	for version, names := range files {
		err := r.removeUnrecorded(ctx, version, names, age)
		if err != nil && !errors.Is(err, js.ErrDamaged) && !errors.Is(err, retrain.ErrDamaged) {
			return err
		}
	}
	return nil
}

// removeUnrecorded removes objects of a version, of which it gets the token, unless its
// record names files or an object is younger than age. A damaged record may name them.
func (r *Registry) removeUnrecorded(ctx context.Context, version string, names []string, age time.Duration) error {
	m, _, err := js.Load[retrain.Model](ctx, r.state, keyModel+version)
	if err != nil || len(m.Files) > 0 {
		return err
	}
	for _, name := range names {
		if old, err := r.objects.olderThan(ctx, name, age); err != nil || !old {
			return err
		}
	}
	for _, name := range names {
		if err := r.objects.remove(ctx, name); err != nil {
			return err
		}
	}
	r.log.Info().Str("version", version).Int("files", len(names)).Msg("removed the stored files of a model version that was not registered")
	return nil
}
