package livestream

import (
	"assay/api/internal/exchange"
	"assay/rewardmodel/wire"
)

// Decode decodes a message after its cost is charged. Its text is charged again where
// it is kept; what opens a session is kept until the end.
func Decode(x *exchange.Exchange, message []byte) (wire.LiveMessage, error) {
	cost := wire.DecodeBytes(message)
	if err := x.Memory.Grow(cost); err != nil {
		return wire.LiveMessage{}, err
	}
	m, err := wire.DecodeLiveMessage(message, x.Limits().Scoring)
	if m.Open == nil {
		x.Memory.Shrink(cost)
	}
	return m, err
}
