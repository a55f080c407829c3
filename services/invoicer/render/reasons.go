package render

import (
	"regexp"
	"strings"
)

// reason explains a reason of the closed lists (core/contract, core/price, core/occupancy, core/meter, core/usage).
type reason struct{ code, why, remedy, whyZh, remedyZh string }

// reasons of refused time and refused statements, and of blocks that are not about either.
//
//tidy:const
var reasons = []reason{
	{
		"no_contract", "The customer had no contract in force.", "Sign a contract whose term covers this time.",
		"客户在该时间没有生效的合同。", "请签署覆盖该时间的合同。",
	},
	{
		"ambiguous_contract", "The customer had several contracts in force, none or more than one of them prices the SKU, and the lease names none.", "State the lease's contract.",
		"客户有多份生效合同，其中为该规格定价的不止一份或一份也没有，而租约未指明合同。", "请在租约中指明合同。",
	},
	{
		"unknown_contract", "No signature of the contract is known.", "Sign the contract, or correct its name.",
		"未收到该合同的签署记录。", "请签署合同，或更正合同编号。",
	},
	{
		"wrong_customer", "The contract belongs to another customer.", "Name a contract of the lease's own customer.",
		"合同属于其他客户。", "请为租约指定该客户自己的合同。",
	},
	{
		"outside_term", "The time lies outside the contract's term.", "Extend the term by an amendment, or sign a contract for this time.",
		"该时间不在合同有效期内。", "请以补充协议延长有效期，或为该时间另签合同。",
	},
	{
		"bad_contract", "The contract document cannot be read.", "Correct the document and state it again.",
		"合同文本无法解析。", "请更正合同文本后重新提交。",
	},
	{
		"second_signature", "The contract was signed before.", "State an amendment instead.",
		"合同已签署过。", "如需变更，请提交补充协议。",
	},
	{
		"unsupported_amendment", "The amendment changes what must stay for a contract's life.", "Sign a new contract instead.",
		"补充协议变更了合同期内不可变更的条款。", "请另签新合同。",
	},
	{
		"unsupported_mode", "The pricing mode is not supported.", "State the lease as on_demand or spot, or wait for a version that supports the mode.",
		"暂不支持该计费模式。", "请以 on_demand 或 spot 登记租约，或等待支持该模式的版本。",
	},
	{
		"no_rate", "The contract has no rate for this SKU.", "Add the rate by an amendment, or correct the lease's SKU.",
		"合同中没有该规格的价格。", "请以补充协议增加价格，或更正租约规格。",
	},
	{
		"no_region", "The rate has no factor for this region.", "Add the region by an amendment, or correct the lease's region.",
		"价格中没有该地域的系数。", "请以补充协议增加地域系数，或更正租约地域。",
	},
	{
		"no_service_tier", "The rate has no factor for this service tier.", "Add the tier by an amendment, or correct the lease's tier.",
		"价格中没有该服务等级的系数。", "请以补充协议增加等级系数，或更正租约服务等级。",
	},
	{
		"no_spot_price", "The spot index has no price for this time and region in the contract's currency.", "State the price with its instant (spot.price_changed.v1).",
		"该时段该地域的竞价指数没有合同币种的价格。", "请补交带生效时间的竞价价格（spot.price_changed.v1）。",
	},
	{
		"bad_spot_price", "The spot price or its currency cannot be read; the price before it stands.", "State the price again under another key, such as 1.2345/gpu-hour.",
		"竞价价格或币种无法解析，仍按此前价格计费。", "请以新的键重新提交价格，例如 1.2345/gpu-hour。",
	},
	{
		"reclaimed_free", "The provider took the lease back soon after its start; the contract does not charge for that.", "Nothing: this time is free.",
		"租约开始后不久即被服务方收回，按合同不计费。", "无需处理：该时间免费。",
	},
	{
		"trial", "The contract charges nothing for use in its trial.", "Nothing: this time is free.",
		"合同在试用期内不对用量计费。", "无需处理：该时间免费。",
	},
	{
		"not_seen", "No sample proves this time, and the contract bills only time that samples prove.", "Nothing, unless the samples are still to come: those that come late bill it by a correction.",
		"没有采样证明该时间，而合同只对有采样的时间计费。", "无需处理；若采样尚未送达，迟到的采样将以更正账单补计。",
	},
	{
		"slow_source", "The contract bills only time that samples prove, and the source of this hour's samples looks less often than once a second.",
		"Sample the device every second; late samples of a faster source bill the hour. Or state refusal.waived or refusal.carried.",
		"合同只对有采样的时间计费，而该小时的采样间隔超过一秒。", "请将采样间隔设为一秒；更快的采样补到后该小时即可计费。也可提交 refusal.waived 或 refusal.carried。",
	},
	{
		"unknown_package", "The contract sells no package of this name at this time.", "Add the package by an amendment, or state the purchase under the right name and carry the refusal.",
		"合同在该时间不出售此名称的套餐。", "请以补充协议增加套餐，或以正确的名称重新提交购买记录，并将该拒收记录结转。",
	},
	{
		"unknown_purchase", "No purchase of this key bought anything under the contract.", "State the purchase, or the end under the purchase's right key, and carry the refusal.",
		"合同下没有此键的有效购买记录。", "请补交购买记录，或以正确的购买键重新提交终止记录，并将该拒收记录结转。",
	},
	{
		"outside_package", "The package does not run at this time.", "State the right time under a new key, and carry the refusal.",
		"该时间不在套餐有效期内。", "请以新键提交正确的时间，并将该拒收记录结转。",
	},
	{
		"second_end", "The package ended before; that end stands.", "Carry the refusal.",
		"套餐此前已终止，以此前的终止为准。", "请将该拒收记录结转。",
	},
	{
		"no_on_demand_price", "The elapsed time is charged on demand, and the SKU has no on-demand price for all of it.", "State the price for this time: by an amendment, or in the price book.",
		"已过的时间按按需价格计费，而该规格在此期间没有完整的按需价格。", "请以补充协议或价目表补充该时间的价格。",
	},
	{
		"no_termination", "The contract does not say what is due for ending it early.", "Amend the term instead, and carry the refusal.",
		"合同未约定提前终止条款。", "请以补充协议变更有效期，并将该拒收记录结转。",
	},
	{
		"second_termination", "The contract was terminated before; that end stands.", "Carry the refusal.",
		"合同此前已终止，以此前的终止为准。", "请将该拒收记录结转。",
	},
	{
		"unknown_meter", "The contract has no meter of this name at this time.", "Add the meter by an amendment, or state the reading under the right name.",
		"合同在该时间没有此名称的计量项。", "请以补充协议增加计量项，或以正确的名称重新提交读数。",
	},
	{
		"bad_quantity", "The quantity of the reading is negative, too large or no decimal number.", "State the right quantity under a new key, and carry the refusal.",
		"读数的数量为负、过大或不是十进制数。", "请以新键提交正确的数量，并将该拒收记录结转。",
	},
	{
		"counter_fell", "The counter shows less than before.", "If it began anew, state its readings under another resource; then carry the refusal.",
		"累计读数小于此前的读数。", "如计数器已重新开始，请以另一资源名提交读数，并将该拒收记录结转。",
	},
	{
		"no_resource", "The meter counts resources, and the reading names none.", "State the reading with its resource, and carry the refusal.",
		"该计量项按资源计数，而读数未指明资源。", "请补充资源后重新提交，并将该拒收记录结转。",
	},
	{
		"no_holiday_calendar", "The price depends on whether a day is a holiday, and no holiday calendar of the contract speaks of it.",
		"Name that year's calendar in the schedule by an amendment.",
		"价格取决于当日是否为节假日，而合同引用的节假日历未涵盖该日。", "请以补充协议在分时计价条款中增加该年度的节假日历。",
	},
	{
		"overlap", "All that may be sold of the device was given out to earlier leases.",
		"Correct the lease that is wrong, or declare that more of the device may be sold (device.declared.v1).",
		"该设备可同时出售的份额已分配给更早的租约。", "请更正有误的租约；如该设备允许超售，请提交 device.declared.v1。",
	},
	{
		"unknown_device", "No lease names the device that was declared.", "Nothing, if its first lease is still to come; else declare the device under its right name.",
		"没有租约使用所申报的设备。", "如其首份租约尚未提交，无需处理；否则请以正确的设备名重新申报。",
	},
	{
		"unknown_lease", "No start of the lease is known.", "State the lease's start.",
		"未收到该租约的开始记录。", "请补交租约开始记录。",
	},
	{
		"stop_before_start", "The lease would stop before it starts.", "Correct the instant of the stop or of the start.",
		"租约的结束时间早于开始时间。", "请更正开始或结束时间。",
	},
	{
		"second_start", "The lease was started before.", "Use a new lease name, or a change of state.",
		"租约已开始过。", "请使用新的租约编号，或提交状态变更。",
	},
	{
		"after_stop", "The lease was stopped before.", "Start a new lease.",
		"租约已结束。", "请新建租约。",
	},
	{
		"conflicting_fact", "Its key was used for another statement, and that one stands.", "If both are true, state this one under a new key.",
		"该记录的键已用于另一条记录，以先到者为准。", "如两条均属实，请以新键重新提交。",
	},
	{
		"assertion_failed", "A check of the program itself failed.", "Report it with the detail; the customer's close waits, nobody else's does.",
		"程序自检失败。", "请连同详情上报；仅该客户暂缓出账，其他客户不受影响。",
	},
	{
		"undecodable", "The message cannot be decoded.", "Look at the collector of that node and its version.",
		"消息无法解码。", "请检查该节点的采集器及其版本。",
	},
	{
		"wrong_partition", "The message came by another node's way.", "Look at the collector's settings.",
		"消息来自其他节点的通道。", "请检查采集器配置。",
	},
	{
		"sequence_conflict", "Two batches of one run contradict each other; the first is believed.", "Look for two collectors on one node.",
		"同一次运行的两个批次相互矛盾，以先者为准。", "请检查该节点是否运行了两个采集器。",
	},
	{
		"ahead_of_tick", "The samples lie in the future.", "Set the node's clock right.",
		"采样时间在未来。", "请校准该节点的时钟。",
	},
	{
		"bad_signature", "The batch is not signed with a key of its node.", "Compare its keys (`gpuhour node show`) with the key it signs with; if they agree, find who else writes as it.",
		"该批次未用其节点的密钥签名。", "请用 `gpuhour node show` 核对该节点的密钥；若一致，请查明是谁在冒用该节点。",
	},
	{
		"halted", "Rating of this customer stopped after a failed check.", "Report it with the detail; rating resumes with a corrected version.",
		"该客户的计费因自检失败而暂停。", "请连同详情上报；修正版本后恢复计费。",
	},
	{
		"conservation", "The ledger and the leases do not hold the same time.", "Report it: nothing is billed while the two differ.",
		"账本与租约的时长不一致。", "请上报：两者不一致时不会出账。",
	},
}

//tidy:const
var codeWord = regexp.MustCompile(`[a-z_]+`)

// explain says a reason in words, and what to do about it. A reason that is not known stays as it is.
func (o Options) explain(code string) (why, remedy string) {
	for _, r := range reasons {
		switch {
		case r.code != code:
		case o.Language == Chinese:
			return r.whyZh, r.remedyZh
		default:
			return r.why, r.remedy
		}
	}
	return clean(code), ""
}

// codeIn finds the reason that a sentence is about.
func codeIn(sentence string) string {
	for _, w := range codeWord.FindAllString(strings.ToLower(sentence), -1) {
		for _, r := range reasons {
			if r.code == w {
				return w
			}
		}
	}
	return ""
}
