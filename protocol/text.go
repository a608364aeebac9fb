package protocol

import "fmt"

// String is %+v with the infos as text.
func (i ClientInfo) String() string {
	return fmt.Sprintf("{User:%s Client:%s ConnInfo:%s ChanInfo:%s}", i.User, i.Client, i.ConnInfo, i.ChanInfo)
}
