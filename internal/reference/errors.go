package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"

	"assay/internal/errorcode"
)

// Retry specifies whether a failed request can be retried.
type Retry string

// The values of Retry.
const (
	Always       Retry = "yes"           // it was not processed
	IfIdempotent Retry = "if idempotent" // it may have been processed
	Never        Retry = "no"            // it fails again
)

// Errors returns the page of the error codes. The source is that of package errorcode, whose comments describe the
// codes. The function retry returns whether clients retry a request that failed with a code.
func Errors(source []byte, retry func(errorcode.Code) Retry) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "errorcode.go", source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	p := newPage("Error codes", "internal/errorcode")
	p.paragraph("Every failure has a code, the same over each protocol. Over HTTP it is `error.code` of the body, " +
		"`{\"error\":{\"code\":\"too_large\",\"message\":...}}`; the protocols of other projects have bodies of their own " +
		"with the same status. Failed requests over NATS have the number in the header `Nats-Service-Error-Code` and the " +
		"JSON error as the body; [dead letters](nats.md) have it in `Assay-Error-Code`.")
	p.paragraph("Overload is 503 with `Retry-After`, and `Unavailable` over gRPC. The status 429, `ResourceExhausted` with the trailer `retry-after` over gRPC, is sent only to callers that the token file limits.")
	p.paragraph("The column retry: **yes** means that the request may succeed later unchanged, after the time in " +
		"`Retry-After` if it is given. The clients of this repository repeat such requests with exponential backoff. " +
		"**If idempotent** means that the service may have done what was asked, such as a rollback, so that only requests " +
		"that may run twice are repeated. **No** means that the same request fails again.")
	var rows [][]string
	for _, declaration := range file.Decls {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if name, ok := value.Type.(*ast.Ident); !ok || name.Name != "Code" {
				continue
			}
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				return "", err
			}
			meaning := value.Comment.Text()
			if meaning == "" {
				return "", fmt.Errorf("the code %s has no comment that says what it means", text)
			}
			c := errorcode.Code(text)
			rows = append(rows, []string{code(text), status(c.HTTP()), code(c.GRPC().String()),
				strconv.Itoa(c.HTTP()), prose(meaning), string(retry(c))})
		}
	}
	p.table([]string{"code", "HTTP", "gRPC", "NATS", "meaning", "retry"}, rows)
	return p.String(), nil
}

func status(number int) string {
	if text := http.StatusText(number); text != "" {
		return fmt.Sprintf("%d %s", number, text)
	}
	return strconv.Itoa(number)
}
