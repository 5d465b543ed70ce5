package versions

import (
	"context"
	"sync"

	"assay/rewardmodel"
)

// Live opens a live session with the version that request.Model selects. The version
// stays loaded until release is called, which more calls do not repeat. Its errors are
// those of Score that concern the request.
func (v *Set) Live(ctx context.Context, request rewardmodel.LiveRequest) (session *rewardmodel.Live, release func(), err error) {
	e, err := v.pinned(ctx, rewardmodel.Request{Model: request.Model, Options: request.Options, Responses: []rewardmodel.Item{{Response: new("")}}})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if session == nil { // also after a panic
			v.release(e)
		}
	}()
	session, err = e.loaded.Live(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	return session, sync.OnceFunc(func() { v.release(e) }), nil
}
