package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// The fields that are read of SentencePiece's model file, a protocol buffer
// (sentencepiece_model.proto).
const (
	spmPieces     = 1
	spmTrainer    = 2
	spmNormalizer = 3

	pieceText  = 1
	pieceScore = 2
	pieceType  = 3

	trainerModel    = 3
	trainerFallback = 35
	trainerUnknown  = 40

	normalizerMap = 2
)

// Values of trainerModel and pieceType.
const (
	spmUnigram = 1

	spmNormal      = 1
	spmUnknown     = 2
	spmControl     = 3
	spmUserDefined = 4
)

var errSPM = errors.New("not a SentencePiece model, or a damaged one")

// wireField is a field of a protocol buffer: a number, or bytes.
type wireField struct {
	tag    uint64
	number uint64
	bytes  []byte
}

// wireFields calls yield with each field of a message.
func wireFields(data []byte, yield func(f wireField) error) error {
	varint := func() (uint64, error) {
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return 0, errSPM
		}
		data = data[n:]
		return value, nil
	}
	take := func(n uint64) ([]byte, error) {
		if n > uint64(len(data)) {
			return nil, errSPM
		}
		part := data[:n]
		data = data[n:]
		return part, nil
	}
	for len(data) > 0 {
		key, err := varint()
		if err != nil {
			return err
		}
		f := wireField{tag: key >> 3}
		switch key & 7 {
		case 0:
			f.number, err = varint()
		case 1:
			f.bytes, err = take(8)
		case 2:
			var n uint64
			if n, err = varint(); err == nil {
				f.bytes, err = take(n)
			}
		case 5:
			if f.bytes, err = take(4); err == nil {
				f.number = uint64(binary.LittleEndian.Uint32(f.bytes))
			}
		default:
			err = errSPM
		}
		if err == nil {
			err = yield(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spmModel is the content of a model file.
type spmModel struct {
	parts
	model    uint64
	charsmap []byte
}

// parseSPM reads a model of SentencePiece as transformers converts it to
// `tokenizers` for DeBERTa: a Unigram model with a character map.
func parseSPM(data []byte) (spmModel, error) {
	m := spmModel{parts: parts{vocab: newVocabulary(0), unigram: &unigramParts{}}, model: spmUnigram}
	err := wireFields(data, func(f wireField) error {
		switch f.tag {
		case spmPieces:
			return m.addPiece(f.bytes)
		case spmTrainer:
			return wireFields(f.bytes, func(f wireField) error {
				switch f.tag {
				case trainerModel:
					m.model = f.number
				case trainerUnknown:
					m.unigram.unknown = int(int32(f.number))
				case trainerFallback:
					if f.number != 0 {
						return errors.New("trainer_spec: byte_fallback is not supported with spm.model; save the tokenizer as tokenizer.json")
					}
				}
				return nil
			})
		case spmNormalizer:
			return wireFields(f.bytes, func(f wireField) error {
				if f.tag == normalizerMap {
					m.charsmap = f.bytes
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && m.model != spmUnigram {
		err = fmt.Errorf("trainer_spec: model_type %d is not supported; want 1 (Unigram)", m.model)
	}
	if err == nil && len(m.unigram.scores) == 0 {
		err = errSPM
	}
	return m, err
}

func (m *spmModel) addPiece(data []byte) error {
	var piece string
	var score float32
	kind := uint64(spmNormal)
	err := wireFields(data, func(f wireField) error {
		switch f.tag {
		case pieceText:
			piece = string(f.bytes)
		case pieceScore:
			score = math.Float32frombits(uint32(f.number))
		case pieceType:
			kind = f.number
		}
		return nil
	})
	id := len(m.unigram.scores)
	switch {
	case err != nil:
		return err
	case !utf8.ValidString(piece) || math.IsNaN(float64(score)) || math.IsInf(float64(score), 0):
		return fmt.Errorf("piece %d: %w", id, errSPM)
	case kind == spmUserDefined:
		return plainTokenError(piece)
	case kind == spmControl || kind == spmUnknown:
		m.unigram.special = append(m.unigram.special, int32(id))
	}
	if err := m.vocab.add(piece, id); err != nil {
		return err
	}
	m.unigram.scores = append(m.unigram.scores, float64(score))
	return nil
}
