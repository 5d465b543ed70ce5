package bench

import (
	"context"
	"errors"
	"slices"

	"assay/lab/load"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// ScorePath is the native endpoint of a service.
const ScorePath = "/v1/score"

// Items are responses of the texts.
func Items(texts []string) []rewardmodel.Item {
	out := make([]rewardmodel.Item, len(texts))
	for i := range texts {
		out[i].Response = &texts[i]
	}
	return out
}

// Requests packs the items into request bodies of the given size.
func Requests(items []rewardmodel.Item, size int) ([][]byte, error) {
	var bodies [][]byte
	for part := range slices.Chunk(items, size) {
		body, err := wire.AppendRequest(nil, rewardmodel.Request{Responses: part})
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// Score posts all bodies to the service with that URL by the schedule. It fails where every request fails.
func Score(ctx context.Context, service string, bodies [][]byte, s load.Schedule) (load.Result, error) {
	to := load.NewHTTP(service+ScorePath, s.Concurrency)
	defer to.Close()
	s.More = load.First(len(bodies))
	r, err := load.Run(ctx, s, func(ctx context.Context, i int) ([]byte, error) { return to.Send(ctx, bodies[i]) }, nil)
	return r, errors.Join(err, r.Err())
}
