export { followGroups } from "./groups.ts";
export {
  acceptInvitation,
  acceptInvitationTo,
  createInvitation,
  getInvitation,
  listInvitations,
  revokeInvitation,
} from "./invitations.ts";
export { listMembers, removeMember, updateMember } from "./members.ts";
